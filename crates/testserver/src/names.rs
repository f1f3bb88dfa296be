//! Names of objects: which ones the server takes.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// What is wrong with a name, if anything.
pub(crate) fn why_invalid(name: &str) -> Option<&'static str> {
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    (!name.split('.').all(is_label)).then_some(SUBDOMAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_subdomains() {
        for name in ["a", "a-b.c1", "0"] {
            assert_eq!(why_invalid(name), None, "{name}");
        }
        for name in ["", "a/b", "A", "-a", "a-", "a..b", "a_b", "\u{e4}"] {
            assert!(why_invalid(name).is_some(), "{name}");
        }
    }
}
