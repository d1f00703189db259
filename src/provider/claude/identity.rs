//! Who the server says a Claude login is: `GET /api/oauth/profile`. Pure.

use serde_json::Value;

use crate::identity::fingerprint::Account;
use crate::provider::FetchError;
use crate::provider::answer::text;

/// The account in the profile endpoint's answer. One person in two organisations is two accounts, so an
/// answer that lacks either id proves nothing.
pub(crate) fn parse(answer: &Value) -> Result<Account, FetchError> {
    let account = text(&answer["account"]["uuid"]).ok_or(FetchError::Shape)?;
    let organization = text(&answer["organization"]["uuid"]).ok_or(FetchError::Shape)?;
    Ok(Account {
        user: None,
        account: Some(account),
        organization: Some(organization),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::provider::FetchError;
    use serde_json::json;

    #[test]
    fn the_account_and_the_organisation_are_both_needed() {
        let answer = include_str!("../../../fixtures/provider/claude/profile.json");
        let account = parse(&serde_json::from_str(answer).unwrap()).unwrap();
        assert!(account.account.unwrap().starts_with("11111111-"));
        assert!(account.organization.unwrap().starts_with("33333333-"));
        for answer in [
            json!(null),
            json!([]),
            json!({"account": {"uuid": "a"}}),
            json!({"account": {"uuid": 7}, "organization": {"uuid": "o"}}),
            json!({"account": {"uuid": ""}, "organization": {"uuid": "o"}}),
        ] {
            assert_eq!(parse(&answer), Err(FetchError::Shape), "{answer}");
        }
    }
}
