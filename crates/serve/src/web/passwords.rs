//! Authentication with user names and passwords.
//!
//! bcrypt takes 0.1 s to check a password. A correct password is remembered, so that it is accepted
//! again without bcrypt. Other passwords are checked for at most a tenth of the time. An attacker
//! therefore uses little CPU time and does not lock out known users. A reload of the file keeps the
//! known passwords of users whose hash is unchanged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, Tag};
use ring::rand::SystemRandom;

/// Factor of the pause after a check: the pause is the duration of the check, multiplied by this
/// factor.
const PAUSE_FACTOR: u32 = 9;
/// Hash for names without a user, so that the check takes the same time. No password matches it.
const UNKNOWN_USER_HASH: &str = "$2b$10$abcdefghijklmnopqrstuuSbRk0m0JtQWMGN9dYkF7n8gJc4vXYhG";

/// Result of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Admission {
    Granted,
    Refused,
    /// Too many passwords were checked: try again later.
    Later,
}

/// Users, and the known passwords.
#[derive(Debug)]
pub(super) struct Passwords {
    users: BTreeMap<String, String>,
    /// Last correct password of each user, as a tag with a key of this run.
    right: BTreeMap<String, Tag>,
    key: hmac::Key,
    /// Hash for names without a user.
    unknown_user_hash: String,
    next: Instant,
}

impl Passwords {
    /// # Errors
    /// If the system does not provide random numbers.
    pub(super) fn new(users: BTreeMap<String, String>) -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("this system does not provide random numbers"))?;
        Ok(Self {
            unknown_user_hash: hash_for_unknown_user(&users),
            users,
            right: BTreeMap::new(),
            key,
            next: Instant::now(),
        })
    }

    pub(super) fn into_users(self) -> BTreeMap<String, String> {
        self.users
    }

    /// Replaces the users, as after a reload of the file. Known passwords stay known for
    /// users whose hash is unchanged. They are forgotten for users that are gone or have another
    /// hash. The pause after the last check continues, so that a reload does not allow an
    /// additional check.
    pub(super) fn replace_users(&mut self, users: BTreeMap<String, String>) {
        let previous = std::mem::replace(&mut self.users, users);
        let users = &self.users;
        self.right
            .retain(|name, _| previous.get(name) == users.get(name));
        self.unknown_user_hash = hash_for_unknown_user(users);
    }

    /// Checks the value of an `Authorization` at `now`.
    pub(super) fn admits(&mut self, authorization: Option<&str>, now: Instant) -> Admission {
        let Some((name, password)) = authorization.and_then(name_and_password) else {
            return Admission::Refused;
        };
        let is_known = self
            .right
            .get(&name)
            .is_some_and(|tag| hmac::verify(&self.key, &password, tag.as_ref()).is_ok());
        if is_known {
            return Admission::Granted;
        }
        if now < self.next {
            return Admission::Later;
        }
        let began = Instant::now();
        let hash = self.users.get(&name);
        let is_right =
            bcrypt::verify(&password, hash.unwrap_or(&self.unknown_user_hash)).unwrap_or(false);
        self.next = now + pause_after(began.elapsed());
        if is_right && hash.is_some() {
            self.right.insert(name, hmac::sign(&self.key, &password));
            Admission::Granted
        } else {
            Admission::Refused
        }
    }
}

/// Returns the hash for names without a user, with the cost of the first user's hash. Otherwise the
/// response time would show which names exist.
fn hash_for_unknown_user(users: &BTreeMap<String, String>) -> String {
    let first = users.values().next();
    let cost = first.and_then(|hash| hash.get(4..6)).unwrap_or("10");
    UNKNOWN_USER_HASH.replacen("10", cost, 1)
}

/// Returns the time, from the start of a check that took `took`, during which no password is
/// checked.
fn pause_after(took: Duration) -> Duration {
    took * (PAUSE_FACTOR + 1)
}

/// Parses an `Authorization` of the type `Basic`.
fn name_and_password(text: &str) -> Option<(String, Vec<u8>)> {
    let (sort, rest) = text.trim().split_once(' ')?;
    if !sort.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = STANDARD.decode(rest.trim()).ok()?;
    let colon = bytes.iter().position(|&byte| byte == b':')?;
    let name = std::str::from_utf8(&bytes[..colon]).ok()?;
    Some((name.to_owned(), bytes[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwords() -> Passwords {
        let hash = bcrypt::hash("geheim", 4).unwrap();
        Passwords::new([("prometheus".to_owned(), hash)].into()).unwrap()
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[test]
    fn known_password_is_accepted_during_the_pause() {
        let mut passwords = passwords();
        let now = Instant::now();
        let (right, wrong) = (basic("prometheus:geheim"), basic("prometheus:falsch"));

        assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);

        // No password can be checked at this time, and the known one does not need a check.
        assert_eq!(passwords.admits(Some(&wrong), now), Admission::Later);
        assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);
        let later = now + Duration::from_secs(100);
        assert_eq!(passwords.admits(Some(&wrong), later), Admission::Refused);
        assert_eq!(passwords.admits(Some(&right), later), Admission::Granted);
    }

    #[test]
    fn malformed_authorization_is_refused_without_a_check() {
        let mut passwords = passwords();
        let now = Instant::now();

        for text in ["", "Basic", "Basic !!!", "Bearer abc", &basic("prometheus")] {
            assert_eq!(
                passwords.admits(Some(text), now),
                Admission::Refused,
                "{text}"
            );
        }
        assert_eq!(passwords.admits(None, now), Admission::Refused);
        // None of these caused a check.
        let right = basic("prometheus:geheim");
        assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);
    }

    #[test]
    fn unknown_name_takes_a_check_and_is_refused() {
        let mut passwords = passwords();
        let now = Instant::now();

        assert_eq!(
            passwords.admits(Some(&basic("root:geheim")), now),
            Admission::Refused
        );
        assert_eq!(
            passwords.admits(Some(&basic("root:geheim")), now),
            Admission::Later
        );
        assert!(
            passwords.unknown_user_hash.starts_with("$2b$04$"),
            "{}",
            passwords.unknown_user_hash
        );
    }

    fn hash(password: &str) -> String {
        bcrypt::hash(password, 4).unwrap()
    }

    fn users(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        let entry = |&(name, hash): &(&str, &str)| (name.to_owned(), hash.to_owned());
        list.iter().map(entry).collect()
    }

    /// A reload forgot every known password, so that an attacker locked all users out.
    #[test]
    fn known_passwords_survive_a_reload_for_unchanged_users_only() {
        let (kept, changed, removed) = (hash("a"), hash("b"), hash("c"));
        let before = users(&[
            ("kept", &kept),
            ("changed", &changed),
            ("removed", &removed),
        ]);
        let mut passwords = Passwords::new(before).unwrap();
        let mut now = Instant::now();
        for credentials in ["kept:a", "changed:b", "removed:c"] {
            now += Duration::from_secs(100);
            let admission = passwords.admits(Some(&basic(credentials)), now);
            assert_eq!(admission, Admission::Granted, "{credentials}");
        }

        // The same password with another salt is another hash, too.
        let (again, new) = (hash("b"), hash("d"));
        passwords.replace_users(users(&[
            ("kept", &kept),
            ("changed", &again),
            ("new", &new),
        ]));

        // No check is possible now: only known passwords are granted.
        let mut admission = |text: &str| passwords.admits(Some(&basic(text)), now);
        assert_eq!(admission("kept:a"), Admission::Granted);
        for forgotten in ["changed:b", "removed:c", "new:d"] {
            assert_eq!(admission(forgotten), Admission::Later, "{forgotten}");
        }
        let later = now + Duration::from_secs(100);
        let removed = passwords.admits(Some(&basic("removed:c")), later);
        assert_eq!(removed, Admission::Refused);
    }

    /// A user that is removed and added again between two reloads is a new user.
    #[test]
    fn known_password_is_forgotten_after_a_reload_without_the_user() {
        let own = hash("a");
        let mut passwords = Passwords::new(users(&[("u", &own)])).unwrap();
        let now = Instant::now();
        assert_eq!(
            passwords.admits(Some(&basic("u:a")), now),
            Admission::Granted
        );

        passwords.replace_users(users(&[("other", &own)]));
        passwords.replace_users(users(&[("u", &own)]));

        assert_eq!(passwords.admits(Some(&basic("u:a")), now), Admission::Later);
    }

    /// 20 attackers with different names, existing and not, while the file is reloaded again and
    /// again.
    #[test]
    fn attackers_do_not_lock_out_known_users_over_many_reloads() {
        let own = hash("geheim");
        let list = users(&[("prometheus", &own)]);
        let mut passwords = Passwords::new(list.clone()).unwrap();
        let mut now = Instant::now();
        let right = basic("prometheus:geheim");
        assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);

        for reload in 0..10 {
            for guesser in 0..20 {
                now += Duration::from_millis(1);
                let names = ["prometheus".to_owned(), format!("user{guesser}")];
                let guess = basic(&format!("{}:{reload}{guesser}", names[guesser % 2]));
                assert_ne!(passwords.admits(Some(&guess), now), Admission::Granted);
                assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);
            }
            passwords.replace_users(list.clone());
        }
    }

    #[test]
    fn reload_adapts_the_cost_for_unknown_names() {
        let mut passwords = passwords();
        let costly = hash("geheim").replace("$04$", "$12$");

        passwords.replace_users(users(&[("prometheus", &costly)]));

        assert!(
            passwords.unknown_user_hash.starts_with("$2b$12$"),
            "{}",
            passwords.unknown_user_hash
        );
    }

    #[test]
    fn password_checks_take_at_most_a_tenth_of_the_time() {
        assert_eq!(
            pause_after(Duration::from_millis(80)),
            Duration::from_millis(800)
        );
    }
}
