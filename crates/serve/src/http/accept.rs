//! Content negotiation of `/metrics`, by the header `Accept` (RFC 9110, section 12.5.1).

/// Format of the series in `/metrics`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) enum SeriesFormat {
    /// Text format of Prometheus, version 0.0.4.
    #[default]
    Text,
    /// `OpenMetrics` text, version 1.0.0.
    OpenMetrics,
    /// Protocol buffers of Prometheus: the only format with native histograms.
    Protobuf,
}

/// Format with its order of preference for clients that accept several equally.
const FORMATS: [SeriesFormat; 3] = [
    SeriesFormat::Text,
    SeriesFormat::OpenMetrics,
    SeriesFormat::Protobuf,
];

/// Element of `Accept`: `type/subtype;name=value;q=0.5`.
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// 0 to 1; 0 means that the client does not accept the range.
    quality: f64,
}

impl SeriesFormat {
    /// Chooses the format by the value of `Accept`. Without a value, or if the value contains none
    /// of these formats, the result is [`SeriesFormat::Text`], as in the exporters of Prometheus.
    ///
    /// The highest quality wins, then the most specific range, then the first range.
    pub(crate) fn preferred_by(accept: &str) -> Self {
        let ranges: Vec<MediaRange<'_>> = accept.split(',').filter_map(MediaRange::parse).collect();
        let mut preferred = (Self::default(), (0.0, 0, 0));
        for format in FORMATS {
            let Some((quality, closeness, place)) = format.rank_in(&ranges) else {
                continue;
            };
            let (best_quality, best_closeness, best_place) = preferred.1;
            let is_better = quality > best_quality
                || quality == best_quality && closeness > best_closeness
                || quality == best_quality && closeness == best_closeness && place < best_place;
            if is_better {
                preferred = (format, (quality, closeness, place));
            }
        }
        preferred.0
    }

    /// Quality, specificity and position of the most specific range for this format. `None` if no
    /// range accepts this format.
    fn rank_in(self, ranges: &[MediaRange<'_>]) -> Option<(f64, u32, usize)> {
        let mut rank: Option<(f64, u32, usize)> = None;
        for (place, range) in ranges.iter().enumerate() {
            let closeness = range.closeness_to(self);
            if closeness > rank.map_or(0, |(_, closest, _)| closest) {
                rank = Some((range.quality, closeness, place));
            }
        }
        rank.filter(|&(quality, ..)| quality > 0.0)
    }

    /// Value of `Content-Type`.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; \
                 proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

impl<'a> MediaRange<'a> {
    /// Returns `None` if the element is damaged: a client must not get a format by a
    /// misunderstanding.
    fn parse(element: &'a str) -> Option<Self> {
        let mut parts = element.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut range = Self {
            kind,
            subtype,
            parameters: Vec::new(),
            quality: 1.0,
        };
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=')?;
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name.eq_ignore_ascii_case("q") {
                let quality: f64 = value.parse().ok()?;
                range.quality = (0.0..=1.0).contains(&quality).then_some(quality)?;
            } else {
                range.parameters.push((name, value));
            }
        }
        Some(range)
    }

    /// Returns how specifically the range names `format`: 4 with its version, 3 without, 2 for
    /// `type/*`, 1 for `*/*`, 0 if it names another format. Parameters without a meaning here
    /// (`charset`, `escaping`) are ignored.
    fn closeness_to(&self, format: SeriesFormat) -> u32 {
        let (kind, subtype) = match format {
            SeriesFormat::Text => ("text", "plain"),
            SeriesFormat::OpenMetrics => ("application", "openmetrics-text"),
            SeriesFormat::Protobuf => ("application", "vnd.google.protobuf"),
        };
        if (self.kind, self.subtype) == ("*", "*") {
            return 1;
        }
        if !self.kind.eq_ignore_ascii_case(kind) {
            return 0;
        }
        if self.subtype == "*" {
            return 2;
        }
        if !self.subtype.eq_ignore_ascii_case(subtype) {
            return 0;
        }
        let version = match format {
            SeriesFormat::Text => "0.0.4",
            SeriesFormat::OpenMetrics => "1.0.0",
            SeriesFormat::Protobuf => {
                let is_family =
                    self.parameter("proto") == Some("io.prometheus.client.MetricFamily");
                let is_delimited = self
                    .parameter("encoding")
                    .is_some_and(|value| value.eq_ignore_ascii_case("delimited"));
                return if is_family && is_delimited { 4 } else { 0 };
            }
        };
        match self.parameter("version") {
            None => 3,
            Some(value) if value == version => 4,
            Some(_) => 0,
        }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut parameters = self.parameters.iter();
        parameters
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|&(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::SeriesFormat::{OpenMetrics, Protobuf, Text};
    use super::*;

    const FAMILY: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                          encoding=delimited";
    /// Prometheus 2.42 without and with `--enable-feature=native-histograms`.
    const CLASSIC_2: &str = "application/openmetrics-text;version=1.0.0,\
                             application/openmetrics-text;version=0.0.1;q=0.75,\
                             text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    const NATIVE_2: &str = "application/vnd.google.protobuf;\
                            proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                            application/openmetrics-text;version=1.0.0;q=0.8,\
                            application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    /// Prometheus 3 without and with native histograms.
    const CLASSIC_3: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                             application/openmetrics-text;version=0.0.1;q=0.5,\
                             text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                             text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    const NATIVE_3: &str = "application/vnd.google.protobuf;\
                            proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,\
                            application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

    #[test]
    fn scrapers_get_the_format_that_they_prefer() {
        for (accept, format) in [
            (CLASSIC_2, OpenMetrics),
            (NATIVE_2, Protobuf),
            (CLASSIC_3, OpenMetrics),
            (NATIVE_3, Protobuf),
            // Telegraf, vmagent, curl, Chromium.
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Text),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Text),
            ("*/*", Text),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Text,
            ),
        ] {
            assert_eq!(SeriesFormat::preferred_by(accept), format, "{accept}");
        }
    }

    #[test]
    fn text_format_is_the_default() {
        for accept in [
            "",
            " ",
            ",",
            "*/*;q=0.1",
            "text/*",
            "application/json",
            "text/plain",
            "text/plain;charset=utf-8",
            "TEXT/PLAIN; Version=\"0.0.4\"",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;version=2.0.0",
            "text/plain;version=1.0.0",
            "application/vnd.google.protobuf;proto=other",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            "nonsense",
            "/",
            "text/plain;q=0",
            "application/openmetrics-text;q=0",
        ] {
            assert_eq!(SeriesFormat::preferred_by(accept), Text, "`{accept}`");
        }
    }

    #[test]
    fn quality_precedes_specificity_and_order() {
        let family = |quality: &str| format!("{FAMILY};q={quality}");
        for (accept, format) in [
            ("application/openmetrics-text".to_owned(), OpenMetrics),
            (
                "application/openmetrics-text;version=\"1.0.0\"".into(),
                OpenMetrics,
            ),
            (
                "Application/OpenMetrics-Text; Version=1.0.0; Q=0.3".into(),
                OpenMetrics,
            ),
            ("application/*".into(), OpenMetrics),
            (FAMILY.into(), Protobuf),
            (
                FAMILY.to_uppercase().replace(
                    "IO.PROMETHEUS.CLIENT.METRICFAMILY",
                    "io.prometheus.client.MetricFamily",
                ),
                Protobuf,
            ),
            (
                "text/plain;q=0.2,application/openmetrics-text;q=0.3".into(),
                OpenMetrics,
            ),
            (
                "text/plain;q=0.3,application/openmetrics-text;q=0.2".into(),
                Text,
            ),
            ("text/plain,application/openmetrics-text".into(), Text),
            (
                "application/openmetrics-text,text/plain".into(),
                OpenMetrics,
            ),
            (
                "*/*,application/openmetrics-text;version=1.0.0".into(),
                OpenMetrics,
            ),
            (format!("{},text/plain;q=0.5", family("0.5")), Protobuf),
            (format!("{},text/plain;q=0.5", family("0.3")), Text),
            (format!("{},text/plain;q=0.5", family("0")), Text),
            // A refusal by the most specific range overrides a wider range.
            ("text/plain;q=0,*/*".into(), OpenMetrics),
            ("text/plain;q=0.1,*/*;q=0.9".into(), OpenMetrics),
            ("*/*;q=0.9,application/*;q=0.1".into(), Text),
            // A damaged element is ignored.
            (
                "application/openmetrics-text;q=x,text/plain;q=0.1".into(),
                Text,
            ),
            (
                "application/openmetrics-text;q=2,text/plain;q=0.1".into(),
                Text,
            ),
            (
                "application/openmetrics-text;q=-1,text/plain;q=0.1".into(),
                Text,
            ),
            (
                "application/openmetrics-text;q=NaN,text/plain;q=0.1".into(),
                Text,
            ),
            (
                "application/openmetrics-text;q,text/plain;q=0.1".into(),
                Text,
            ),
        ] {
            assert_eq!(SeriesFormat::preferred_by(&accept), format, "`{accept}`");
        }
    }
}
