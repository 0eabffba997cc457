//! Which variables of an environment hold a secret, by their names.

/// What the name of a variable says if its value is a secret.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "API_KEY", "APIKEY"];

/// How the name of a variable ends if its value is a secret.
const SECRET_ENDS: [&str; 6] = ["_KEY", "_PASS", "_PWD", "_PAT", "_AUTH", "DATABASE_URL"];

/// Returns whether a variable of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|it| name.contains(it))
        || SECRET_ENDS.iter().any(|it| name.ends_with(it))
}
