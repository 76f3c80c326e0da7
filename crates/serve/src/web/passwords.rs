//! Who may ask, by name and password.
//!
//! To try a password takes bcrypt a tenth of a second. One that was right is known
//! again without that, and others are tried for a tenth of the time at most: whoever
//! guesses takes no more of this machine, and keeps nobody out who is known. A reload of
//! the file keeps the known passwords of users whose hash is unchanged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, Tag};
use ring::rand::SystemRandom;

/// After a password was tried, so many times as long none is.
const REST: u32 = 9;
/// What is tried for names that nobody has, so that it takes as long: of no password.
const NOBODY: &str = "$2b$10$abcdefghijklmnopqrstuuSbRk0m0JtQWMGN9dYkF7n8gJc4vXYhG";

/// Whether a request may be answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Admission {
    Granted,
    Refused,
    /// Too many passwords were tried: ask again.
    Later,
}

/// Names, and what is known of their passwords.
#[derive(Debug)]
pub(super) struct Passwords {
    users: BTreeMap<String, String>,
    /// By name, the last password that was right, under a key of this run.
    right: BTreeMap<String, Tag>,
    key: hmac::Key,
    /// What is tried for a name that nobody has.
    nobody: String,
    next: Instant,
}

impl Passwords {
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn new(users: BTreeMap<String, String>) -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("this system gives no random numbers"))?;
        Ok(Self {
            nobody: hash_of_nobody(&users),
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
    /// users whose hash is unchanged. They are forgotten for users that are gone or have
    /// another hash. The rest after the last try goes on, so that a reload allows no
    /// additional try.
    pub(super) fn replace_users(&mut self, users: BTreeMap<String, String>) {
        let previous = std::mem::replace(&mut self.users, users);
        let users = &self.users;
        self.right
            .retain(|name, _| previous.get(name) == users.get(name));
        self.nobody = hash_of_nobody(users);
    }

    /// Judges the value of an `Authorization`, at `now`.
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
        let is_right = bcrypt::verify(&password, hash.unwrap_or(&self.nobody)).unwrap_or(false);
        self.next = now + rest_after(began.elapsed());
        if is_right && hash.is_some() {
            self.right.insert(name, hmac::sign(&self.key, &password));
            Admission::Granted
        } else {
            Admission::Refused
        }
    }
}

/// Returns the hash to try for a name without a user. It costs as much as the first
/// user's: otherwise the time of the answer would show which names exist.
fn hash_of_nobody(users: &BTreeMap<String, String>) -> String {
    let first = users.values().next();
    let cost = first.and_then(|hash| hash.get(4..6)).unwrap_or("10");
    NOBODY.replacen("10", cost, 1)
}

/// How long no password is tried after one took so long, from its beginning on.
fn rest_after(took: Duration) -> Duration {
    took * (REST + 1)
}

/// Of an `Authorization` of the sort `Basic`.
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
    fn the_right_password_is_known_again_while_none_is_tried() {
        let mut passwords = passwords();
        let now = Instant::now();
        let (right, wrong) = (basic("prometheus:geheim"), basic("prometheus:falsch"));

        assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);

        // None is tried at the same instant, and the known one need not be.
        assert_eq!(passwords.admits(Some(&wrong), now), Admission::Later);
        assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);
        let later = now + Duration::from_secs(100);
        assert_eq!(passwords.admits(Some(&wrong), later), Admission::Refused);
        assert_eq!(passwords.admits(Some(&right), later), Admission::Granted);
    }

    #[test]
    fn what_is_no_name_and_password_is_refused_without_a_try() {
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
        // None of these took a try.
        let right = basic("prometheus:geheim");
        assert_eq!(passwords.admits(Some(&right), now), Admission::Granted);
    }

    #[test]
    fn a_name_that_nobody_has_takes_a_try_too_and_none_is_right() {
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
            passwords.nobody.starts_with("$2b$04$"),
            "{}",
            passwords.nobody
        );
    }

    fn hash(password: &str) -> String {
        bcrypt::hash(password, 4).unwrap()
    }

    fn users(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        let entry = |&(name, hash): &(&str, &str)| (name.to_owned(), hash.to_owned());
        list.iter().map(entry).collect()
    }

    /// A reload forgot every known password, so that guessing locked all users out.
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
        for known in ["kept:a", "changed:b", "removed:c"] {
            now += Duration::from_secs(100);
            let admission = passwords.admits(Some(&basic(known)), now);
            assert_eq!(admission, Admission::Granted, "{known}");
        }

        // The same password with another salt is another hash, too.
        let (again, new) = (hash("b"), hash("d"));
        passwords.replace_users(users(&[
            ("kept", &kept),
            ("changed", &again),
            ("new", &new),
        ]));

        // Nothing can be tried now: only known passwords are granted.
        let mut at = |text: &str| passwords.admits(Some(&basic(text)), now);
        assert_eq!(at("kept:a"), Admission::Granted);
        for forgotten in ["changed:b", "removed:c", "new:d"] {
            assert_eq!(at(forgotten), Admission::Later, "{forgotten}");
        }
        let later = now + Duration::from_secs(100);
        let removed = passwords.admits(Some(&basic("removed:c")), later);
        assert_eq!(removed, Admission::Refused);
    }

    /// A user that is removed and added again between two reloads is a new user.
    #[test]
    fn a_known_password_is_forgotten_where_the_user_was_missing_in_one_reload() {
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

    /// 20 guessers with different names, existing and not, while the file is read again
    /// and again.
    #[test]
    fn guessers_lock_no_known_user_out_over_many_reloads() {
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
    fn a_reload_adapts_the_cost_of_trying_names_without_a_user() {
        let mut passwords = passwords();
        let costly = hash("geheim").replace("$04$", "$12$");

        passwords.replace_users(users(&[("prometheus", &costly)]));

        assert!(
            passwords.nobody.starts_with("$2b$12$"),
            "{}",
            passwords.nobody
        );
    }

    #[test]
    fn passwords_are_tried_for_a_tenth_of_the_time_at_most() {
        assert_eq!(
            rest_after(Duration::from_millis(80)),
            Duration::from_millis(800)
        );
    }
}
