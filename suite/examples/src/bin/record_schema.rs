//! Prints the JSON schema of the record format, generated from the types.
//!
//! ```sh
//! cargo run -p paravt-examples --bin record_schema > suite/docs/record.schema.json
//! ```

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string_pretty(&paravt_suite::record::schema())?);
    Ok(())
}
