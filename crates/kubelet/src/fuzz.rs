//! Foreign bytes against whatever reads them here: see `minik8s_fuzz`.

use std::io::Cursor;

use bytes::BytesMut;
use minik8s_fuzz::{Corpus, fuzz};

use crate::image::{Archive, Recipe};
use crate::log_file::Line;
use crate::server::fuzzing::{
    Encoder, Frame, StreamFlags, Subprotocol, spdy_data, spdy_pong, spdy_read, translate,
};

#[test]
fn fuzz_image_archives() {
    let mut oci = Vec::new();
    Recipe::new("busybox:1").file("bin/sh", 0o755, b"#!".to_vec()).write(&mut oci).unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    let manifest = br#"[{"Config":"c.json","RepoTags":["app:1"],"Layers":["l/layer.tar","l/layer.tar"]}]"#;
    let members: [(&str, &[u8]); 3] =
        [("manifest.json", manifest), ("c.json", b"{}"), ("l/layer.tar", b"\x1f\x8bx")];
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes).unwrap();
    }
    let docker = tar.into_inner().unwrap();
    let words =
        ["index.json", "manifest.json", "sha256:", "\"manifests\":", "\"digest\":", "\"size\":", "../"];
    fuzz("image archives", 1, Corpus { inputs: &[&oci, &docker], words: &words }, |input| {
        let _ = Archive::open(Cursor::new(input.to_vec())).and_then(|mut archive| archive.images());
    });
}

#[test]
fn fuzz_cri_log_lines() {
    let lines: [&[u8]; 4] = [
        b"2026-11-15T18:57:51.199270903Z stdout F hello world\n",
        b"2026-11-15T18:57:51Z stderr P half",
        b"2026-11-15T18:57:51+01:00 stdout F:x \xff\xfe",
        b"2026-11-15T18:57:51Z stdout F",
    ];
    fuzz(
        "CRI log lines",
        1,
        Corpus { inputs: &lines, words: &["stdout", "stderr", " F ", "P:", "Z"] },
        |input| {
            if let Some(line) = Line::parse(input) {
                assert!(line.text.len() < input.len());
                let _ = line.timestamp();
            }
        },
    );
}

#[test]
fn fuzz_spdy_frames() {
    let opened = Encoder::default().open(1, &[("streamType", "stdout")]).unwrap();
    let frames = [spdy_data(5, b"hello", false), spdy_data(5, b"", true), spdy_pong(&[0, 0, 0, 1]), opened];
    let all = frames.concat();
    let mut inputs: Vec<&[u8]> = frames.iter().map(|frame| &**frame).collect();
    inputs.push(&all);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    fuzz("SPDY frames", 1, Corpus { inputs: &inputs, words: &["\u{0}\u{3}"] }, |input| {
        runtime.block_on(async {
            let (mut reader, mut buffer, mut seen) = (input, BytesMut::new(), 0);
            while let Ok(Some(frame)) = spdy_read(&mut reader, &mut buffer).await {
                seen += 1;
                if let Frame::Data { data, .. } = frame {
                    assert!(data.len() <= input.len());
                }
            }
            assert!(seen <= input.len() / 8, "each frame has a head");
        });
    });
}

/// Messages of a client, masked as clients do, and a runtime that says nothing.
#[test]
fn fuzz_websocket_frames() {
    let frame = |opcode: u8, payload: &[u8]| {
        let mask = [1, 2, 3, 4];
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        [&[opcode, 0x80 | payload.len() as u8], &mask[..], &masked.collect::<Vec<u8>>()].concat()
    };
    let frames = [
        frame(0x82, b"\x00ls\n"),
        frame(0x82, b"\x04{\"Width\":80,\"Height\":24}"),
        frame(0x02, b"\x00part"),
        frame(0x80, b" two"),
        frame(0x89, b"ping"),
        frame(0x82, &[255, 0]),
        frame(0x88, &[3, 232]),
    ];
    let all = frames.concat();
    let mut inputs: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    inputs.push(&all);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    fuzz("WebSocket frames", 4, Corpus { inputs: &inputs, words: &["\u{0}", "\u{ff}"] }, |input| {
        for subprotocol in [Subprotocol::V5, Subprotocol::V4Base64, Subprotocol::V1] {
            runtime.block_on(async {
                let client = tokio::io::join(input, tokio::io::sink());
                let backend = tokio::io::join(tokio::io::empty(), tokio::io::sink());
                let flags = StreamFlags { stdin: true, stdout: true, stderr: true, tty: true };
                let _ = translate(client, backend, flags, subprotocol).await;
            });
        }
    });
}
