//! Shows a protobuf body as JSON: `cargo run -p minik8s-protobuf --example decode < body`.

use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body)?;
    let decoded = minik8s_protobuf::decode(&body)?;
    decoded.unknown.iter().for_each(|field| eprintln!("unknown {field}"));
    println!("{:#}", decoded.object);
    Ok(())
}
