//! Detects environment variables that hold secrets, by name.

/// Words in the name of a variable that mark its value as a secret.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "API_KEY", "APIKEY"];

/// Suffixes of the name of a variable that mark its value as a secret.
const SECRET_ENDS: [&str; 6] = ["_KEY", "_PASS", "_PWD", "_PAT", "_AUTH", "DATABASE_URL"];

/// Returns whether a variable of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|it| name.contains(it))
        || SECRET_ENDS.iter().any(|it| name.ends_with(it))
}
