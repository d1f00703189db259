//! `accounts.toml`: which accounts, providers and projects there are, edited by people and by us.

pub mod binary;
pub mod edit;
pub mod file;
pub mod init;
pub mod install;
pub mod key;
pub mod path;
pub mod profiles;
pub mod project;
pub mod schema;
pub mod settings;
pub mod shape;
pub mod validate;
pub mod value;
