//! Numbers that the papers print: results of hardware of 1995 to 1999.

use super::{StudyCell, StudyName, SystemTable};
use crate::rtos::TestVerdict;

/// A value per line: study, table, row, column and value. A value that starts with `'` is a
/// name; `<` marks an upper limit, and `..` a range. `PASS` and `FAIL` are verdicts.
const NUMBERS: &str = include_str!("paper.csv");

/// Tables of all studies.
const TABLES: [&str; 16] = [
    "criteria",
    "data_pumps",
    "table1",
    "table2",
    "table3",
    "table4",
    "table5",
    "figure5",
    "table1.paper",
    "table2.paper",
    "table3.paper",
    "clocks",
    "receive",
    "causes",
    "switches",
    "interrupts",
];

/// Returns the tables of the paper.
pub(super) fn tables(study: StudyName) -> Vec<SystemTable> {
    let mut tables: Vec<SystemTable> = Vec::new();
    for line in NUMBERS.lines().skip(1) {
        let parts: Vec<&str> = line.splitn(5, ';').collect();
        let [study_name, table, row, column, value] = parts[..] else {
            continue;
        };
        let name = TABLES.into_iter().find(|name| *name == table);
        let (Some(name), true, Some(value)) = (name, study_name == study.name(), cell(value))
        else {
            continue;
        };
        let place = tables.iter().position(|candidate| candidate.name == name);
        let place = place.unwrap_or_else(|| {
            tables.push(SystemTable::new(name, [] as [&str; 0]));
            tables.len() - 1
        });
        tables[place].set(row, column, value);
    }
    tables
}

fn cell(text: &str) -> Option<StudyCell> {
    if let Some(name) = text.strip_prefix('\'') {
        return Some(StudyCell::Name { text: name.into() });
    }
    match text {
        "PASS" => {
            return Some(StudyCell::Verdict {
                verdict: TestVerdict::Pass,
                reason: None,
            });
        }
        "FAIL" => {
            return Some(StudyCell::Verdict {
                verdict: TestVerdict::Fail,
                reason: None,
            });
        }
        _ => {}
    }
    let Some((number, unit)) = text.split_once(' ') else {
        let count = text.parse().ok()?;
        return Some(StudyCell::Count { count });
    };
    let factor = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        _ => return None,
    };
    let ns = |number: &str| Some(number.parse::<f64>().ok()? * factor);
    if let Some((low, high)) = number.split_once("..") {
        return Some(StudyCell::Range {
            low_ns: ns(low)?,
            high_ns: ns(high)?,
        });
    }
    Some(match number.strip_prefix('<') {
        Some(number) => StudyCell::AtMost { ns: ns(number)? },
        None => StudyCell::Time { ns: ns(number)? },
    })
}

impl SystemTable {
    fn set(&mut self, row: &str, column: &str, cell: StudyCell) {
        let index = self.columns.iter().position(|name| name == column);
        let column = index.unwrap_or_else(|| {
            self.columns.push(column.into());
            self.columns.len() - 1
        });
        let index = self.rows.iter().position(|(name, _)| name == row);
        let row = index.unwrap_or_else(|| {
            self.rows.push((row.into(), Vec::new()));
            self.rows.len() - 1
        });
        let cells = &mut self.rows[row].1;
        cells.resize_with(cells.len().max(column + 1), || StudyCell::Missing {
            reason: super::MissingReason::NotInPaper,
        });
        cells[column] = cell;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_value_of_a_study() {
        for line in NUMBERS.lines().skip(1) {
            let parts: Vec<&str> = line.splitn(5, ';').collect();

            assert!(parts[0].parse::<StudyName>().is_ok(), "{line}");
            assert!(TABLES.contains(&parts[1]), "{line}");
            assert!(cell(parts[4]).is_some(), "{line}");
        }
    }

    #[test]
    fn increments_of_table_3_add_up_as_printed() {
        let tables = tables(StudyName::Osdi99);
        let table3 = tables.iter().find(|table| table.name == "table3").unwrap();
        let ms = |row: &str| match table3.cell(row, "game.week").unwrap() {
            StudyCell::Time { ns } => ns / 1e6,
            other => panic!("{other:?}"),
        };

        assert_eq!(table3.columns.len(), 12);
        assert!((ms("expiry_softirq") + ms("softirq_high") - ms("expiry_high")).abs() < 0.5);
    }
}
