//! Golden case: reads its inputs and compares its outputs.

use serde_json::Value;

/// Case of a golden file.
pub(crate) struct Vector<'a> {
    case: &'a Value,
    name: String,
}

/// Runs `check` on each of the `expected` cases of the golden file `text`.
pub(crate) fn every_case(text: &str, expected: usize, check: impl Fn(&str, &Vector)) {
    let file: Value = serde_json::from_str(text).unwrap();
    let cases = file["cases"].as_array().unwrap();
    for (index, case) in cases.iter().enumerate() {
        let function = case["fn"].as_str().unwrap();
        let name = format!("case {index} ({function})");
        check(function, &Vector { case, name });
    }
    assert_eq!(cases.len(), expected, "cases in the file");
}

impl<'a> Vector<'a> {
    pub(crate) fn at(&self, key: &str) -> Self {
        let case = self.case.get(key);
        Self {
            case: case.unwrap_or_else(|| panic!("{} has no `{key}`", self.name)),
            name: format!("{}, {key}", self.name),
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.case.get(key).is_some()
    }

    pub(crate) fn is_null(&self, key: &str) -> bool {
        self.at(key).case.is_null()
    }

    pub(crate) fn rows(&self) -> Vec<Self> {
        let rows = self.case.as_array().unwrap().iter().enumerate();
        rows.map(|(index, case)| Self {
            case,
            name: format!("{}[{index}]", self.name),
        })
        .collect()
    }

    pub(crate) fn number(&self, key: &str) -> f64 {
        self.at(key).value()
    }

    pub(crate) fn value(&self) -> f64 {
        let value = self.case.as_f64();
        value.unwrap_or_else(|| panic!("{} is {}", self.name, self.case))
    }

    pub(crate) fn count(&self, key: &str) -> u64 {
        self.at(key).whole()
    }

    pub(crate) fn whole(&self) -> u64 {
        self.case.as_u64().unwrap()
    }

    pub(crate) fn index(&self, key: &str) -> usize {
        usize::try_from(self.count(key)).unwrap()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.at(key).case.as_bool().unwrap()
    }

    pub(crate) fn text(&self, key: &str) -> &'a str {
        self.at(key).case.as_str().unwrap()
    }

    pub(crate) fn numbers(&self, key: &str) -> Vec<f64> {
        self.at(key).rows().iter().map(Vector::value).collect()
    }

    pub(crate) fn pairs(&self, key: &str) -> Vec<(f64, f64)> {
        let pair = |row: &Vector| (row.rows()[0].value(), row.rows()[1].value());
        self.at(key).rows().iter().map(pair).collect()
    }

    /// Returns the relative tolerance of this case.
    pub(crate) fn rtol(&self) -> f64 {
        self.number("rtol")
    }

    /// Fails unless `actual` equals the case's value of `key`, within `relative`.
    /// `null` means infinite or undefined.
    pub(crate) fn expect(&self, key: &str, actual: f64, relative: f64) {
        let expected = self.at(key);
        if expected.case.is_null() {
            assert!(!actual.is_finite(), "{}: {actual}", expected.name);
            return;
        }
        let value = expected.value();
        let tolerance = relative * value.abs().max(f64::MIN_POSITIVE);
        let near = (actual - value).abs() <= tolerance;
        assert!(near, "{}: {actual}, not {value}", expected.name);
    }

    /// Checks as `expect` does; `None` corresponds to `null`.
    pub(crate) fn expect_some(&self, key: &str, actual: Option<f64>, relative: f64) {
        self.expect(key, actual.unwrap_or(f64::NAN), relative);
    }

    /// Checks as `expect` does, within `absolute`.
    pub(crate) fn expect_within(&self, key: &str, actual: f64, absolute: f64) {
        let expected = self.at(key);
        if expected.case.is_null() {
            assert!(!actual.is_finite(), "{}: {actual}", expected.name);
            return;
        }
        let value = expected.value();
        let near = (actual - value).abs() <= absolute;
        assert!(near, "{}: {actual}, not {value}", expected.name);
    }

    /// Checks a list as `expect_within` does.
    pub(crate) fn expect_list(&self, key: &str, actual: &[f64], absolute: f64) {
        let expected = self.numbers(key);
        assert_eq!(actual.len(), expected.len(), "{}, {key}", self.name);
        for (index, (a, e)) in actual.iter().zip(&expected).enumerate() {
            let near = (a - e).abs() <= absolute;
            assert!(near, "{}, {key}[{index}]: {a}, not {e}", self.name);
        }
    }
}
