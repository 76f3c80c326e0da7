//! `web/src/types.ts` contains the types of the page's data. They are generated from the schema of
//! the written types, so that the compiler of the page finds each use of a changed field.

use std::fmt::Write as _;
use std::path::Path;

use laggard_view::page::PageData;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Set this to write the file instead of comparing it.
const REWRITE: &str = "LAGGARD_REWRITE_TYPES";

#[test]
fn the_types_of_the_page_are_those_of_its_data() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/types.ts");
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<PageData>();
    let types = module("PageData", schema.as_value());
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&file, &types).unwrap();
    }

    let published = std::fs::read_to_string(&file).unwrap_or_default();

    assert!(
        published == types,
        "web/src/types.ts is stale; run `{REWRITE}=1 cargo test -p laggard-view --test it page_types`"
    );
}

#[test]
fn a_type_is_written_as_its_schema_says() {
    for (schema, written) in [
        (
            r#"{"type": ["integer", "null"], "format": "uint64"}"#,
            "number | null",
        ),
        (
            r##"{"anyOf": [{"$ref": "#/$defs/Cost"}, {"type": "null"}]}"##,
            "Cost | null",
        ),
        (
            r#"{"type": "array", "items": {"type": ["string", "null"]}}"#,
            "(string | null)[]",
        ),
        (
            r#"{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}"#,
            "[number, string]",
        ),
        (
            r#"{"type": "object", "additionalProperties": {"type": "integer"}}"#,
            "Record<string, number>",
        ),
        (
            r#"{"oneOf": [{"enum": ["a", "b"]}, {"const": "c", "type": "string"}]}"#,
            r#""a" | "b" | "c""#,
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}, "required": ["a"]}"#,
            "{ a: string; b?: boolean }",
        ),
        (
            r##"{"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"], "$ref": "#/$defs/Level"}"##,
            r#"{ kind: "a" } & Level"#,
        ),
    ] {
        let schema = serde_json::from_str(schema).unwrap();

        assert_eq!(typed(&schema), written, "for {schema}");
    }
}

/// Returns a module with the types of `root` and all types that it refers to.
fn module(name: &str, root: &Value) -> String {
    let mut text = String::from(
        "// The types of the page's data, generated from those in Rust by the test\n\
         // `page_types`: do not edit. Times are nanoseconds; what each is, Rust says.\n",
    );
    declare(&mut text, name, root);
    for (name, schema) in root["$defs"].as_object().unwrap() {
        declare(&mut text, name, schema);
    }
    text
}

fn declare(text: &mut String, name: &str, schema: &Value) {
    text.push('\n');
    let is_plain = alternatives(schema).is_none() && schema.get("$ref").is_none();
    let Some(fields) = fields(schema).filter(|_| is_plain) else {
        return writeln!(text, "export type {name} = {};", typed(schema)).unwrap();
    };
    writeln!(text, "export interface {name} {{").unwrap();
    for (field, of) in fields {
        writeln!(text, "  {field}: {of};").unwrap();
    }
    text.push_str("}\n");
}

/// The fields of an object with their types, each with `?` where it can be
/// absent: what is then never null.
fn fields(schema: &Value) -> Option<Vec<(String, String)>> {
    let required = schema["required"].as_array();
    let is_required = |name: &str| {
        required.is_some_and(|names| names.iter().any(|required_name| required_name == name))
    };
    let properties = schema["properties"].as_object()?.iter();
    let named = properties.map(|(name, property)| {
        if is_required(name) {
            (name.clone(), typed(property))
        } else {
            (
                format!("{name}?"),
                typed(property).trim_end_matches(" | null").to_owned(),
            )
        }
    });
    Some(named.collect())
}

fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    schema["oneOf"].as_array().or(schema["anyOf"].as_array())
}

fn union<'a>(types: impl Iterator<Item = String> + 'a) -> String {
    let mut members: Vec<String> = Vec::new();
    for member in types {
        if !members.contains(&member) {
            members.push(member);
        }
    }
    members.join(" | ")
}

fn list(item: &Value) -> String {
    let item = typed(item);
    if item.contains(" | ") {
        format!("({item})[]")
    } else {
        format!("{item}[]")
    }
}

/// Returns the type of the values that a schema accepts.
///
/// # Panics
/// Panics if the schema is empty, or uses a feature that no type here needs yet.
fn typed(schema: &Value) -> String {
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = schema["enum"].as_array() {
        return union(values.iter().map(Value::to_string));
    }
    let reference = schema["$ref"].as_str();
    let reference = reference.map(|name| name.trim_start_matches("#/$defs/").to_owned());
    let own = match &schema["type"] {
        Value::Null => None,
        Value::String(type_name) => named(type_name, schema),
        Value::Array(type_names) => {
            let each = |type_name: &Value| named(type_name.as_str().unwrap(), schema).unwrap();
            Some(union(type_names.iter().map(each)))
        }
        other => panic!("a type that is {other}"),
    };
    let one_of = alternatives(schema).map(|schemas| union(schemas.iter().map(typed)));
    // All parts of a schema apply to a value.
    let types: Vec<String> = [own, reference, one_of].into_iter().flatten().collect();
    match &types[..] {
        [] => panic!("a schema that says nothing: {schema}"),
        [single] => single.clone(),
        several => {
            let each = several.iter().map(|part| {
                if part.contains(" | ") {
                    format!("({part})")
                } else {
                    part.clone()
                }
            });
            each.collect::<Vec<_>>().join(" & ")
        }
    }
}

/// Returns the schema of the values of a map. Its keys are arbitrary, or all match one pattern.
fn values(schema: &Value) -> Option<&Value> {
    let any = Some(&schema["additionalProperties"]).filter(|schema| schema.is_object());
    let of_pattern = || schema["patternProperties"].as_object()?.values().next();
    any.or_else(of_pattern)
}

/// Returns a type by its name; `None` for an object without a description.
fn named(name: &str, schema: &Value) -> Option<String> {
    Some(match name {
        "string" | "boolean" | "null" => name.into(),
        "integer" | "number" => "number".into(),
        "array" => match schema["prefixItems"].as_array() {
            Some(items) => format!(
                "[{}]",
                items.iter().map(typed).collect::<Vec<_>>().join(", ")
            ),
            None => list(&schema["items"]),
        },
        "object" => match fields(schema) {
            Some(fields) => {
                let members = fields.iter().map(|(name, of)| format!("{name}: {of}"));
                format!("{{ {} }}", members.collect::<Vec<_>>().join("; "))
            }
            None => format!("Record<string, {}>", typed(values(schema)?)),
        },
        other => panic!("a type named {other}"),
    })
}
