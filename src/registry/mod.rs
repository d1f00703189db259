//! `accounts.toml`: which accounts, providers and projects there are, edited by people and by us.

pub mod schema;
