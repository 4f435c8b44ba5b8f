//! Header, library, committed lists, mapping table and man pages agree.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::header::{functions, other_functions, structs};
use crate::toolchain::{GCC, archive, crate_dir, execute, library, read, run, scratch};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Compares with a committed list. `SUCI_ABI_WRITE=1` writes it anew.
fn compare(file: &str, text: &str) {
    if std::env::var_os("SUCI_ABI_WRITE").is_some() {
        fs::write(crate_dir().join(file), text).unwrap();
    }
    let committed = read(file);
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) =
        (committed.lines().collect(), text.lines().collect());
    let gone: Vec<_> = old.difference(&new).collect();
    let added: Vec<_> = new.difference(&old).collect();
    assert!(
        gone.is_empty() && added.is_empty(),
        "{file}: gone {gone:?}, added {added:?}; a change of the ABI needs SUCI_ABI_WRITE=1 and an entry in CHANGELOG.md"
    );
}

fn exported(arguments: &[&str], library: &Path) -> BTreeSet<String> {
    let text = run(Command::new("nm").args(arguments).arg(library));
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let names = names.map(|name| name.split('@').next().unwrap_or(name).to_owned());
    names.collect()
}

#[test]
fn the_library_exports_what_the_headers_declare_and_the_list_names() {
    let all = functions().into_iter().chain(other_functions());
    let declared: BTreeSet<String> = all.map(|it| it.name).collect();
    let mut list = String::new();
    for name in &declared {
        writeln!(list, "{name}").unwrap();
    }
    compare("abi/symbols.txt", &list);
    let dynamic = exported(&["-D", "--defined-only"], &library().join("libsuci.so.0"));
    assert_eq!(dynamic, declared);
    let in_archive = exported(&["-g", "--defined-only"], &archive());
    let missing: Vec<_> = declared.difference(&in_archive).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_soname_is_0() {
    let so = library().join("libsuci.so.0");
    let text = run(Command::new("readelf").arg("-d").arg(so));
    assert!(text.contains("Library soname: [libsuci.so.0]"), "{text}");
}

/// Unit tests compare the same list with the structs of Rust.
#[test]
fn the_structs_of_c_are_laid_out_as_the_list_says() {
    let mut program =
        String::from("#include <stdio.h>\n#include <suci/suci.h>\nint main(void)\n{\n");
    for each in structs() {
        let name = &each.name;
        writeln!(program, "    printf(\"{name} %zu\\n\", sizeof({name}));").unwrap();
        for field in &each.fields {
            let offset = format!("offsetof({name}, {field})");
            writeln!(program, "    printf(\"{name}.{field} %zu\\n\", {offset});").unwrap();
        }
    }
    program.push_str("    return 0;\n}\n");
    let source = scratch().join("layout.c");
    fs::write(&source, program).unwrap();
    compare(
        "abi/layout.txt",
        &execute(&GCC.compile(&source, "layout", &[])),
    );
}

/// The Rust types of parameters, and what they are called in C.
const TYPES: &[(&str, &[&str])] = &[
    (
        "Handle",
        &[
            "suci_node",
            "suci_book",
            "suci_region",
            "suci_context",
            "suci_group",
            "suci_pending",
        ],
    ),
    ("bool", &["bool"]),
    ("c_char", &["char"]),
    ("c_int", &["int"]),
    ("c_long", &["long"]),
    ("c_void", &["void"]),
    ("f64", &["double"]),
    ("i64", &["int64_t"]),
    ("isize", &["ssize_t"]),
    ("libc::FILE", &["FILE"]),
    ("libc::iovec", &["struct iovec"]),
    ("u8", &["uint8_t"]),
    ("u16", &["uint16_t"]),
    ("u32", &["uint32_t"]),
    ("u64", &["uint64_t"]),
    ("usize", &["size_t"]),
    ("AddressDb", &["addressdb"]),
    ("BufferHandler", &["FM_handler"]),
    ("WordsHandler", &["FM_handler_4"]),
    ("CombineFunction", &["suci_combine"]),
    ("CdpAddress", &["cdp_addr"]),
    ("*const c_char", &["char *const"]),
    ("BatchMessage", &["suci_outgoing"]),
    ("ErrorInfo", &["suci_error_info"]),
    ("Limits", &["suci_limits"]),
    ("NodeOptions", &["suci_node_options"]),
    ("Packet", &["datagram_packet"]),
    ("RawCounters", &["suci_counters"]),
    ("RawEvent", &["suci_event"]),
    ("RawFilter", &["suci_filter"]),
    ("RawLayout", &["suci_layout"]),
    ("RawMatch", &["suci_match"]),
    ("RawPattern", &["suci_match_pattern"]),
    ("RawOperation", &["suci_operation"]),
    ("RawItem", &["suci_item"]),
    ("RawMember", &["suci_member"]),
    ("RawMessage", &["suci_message"]),
    ("RawPeerInfo", &["suci_peer_info"]),
    ("RawPeerOptions", &["suci_peer_options"]),
    ("RawPeerStats", &["suci_peer_stats"]),
    ("RawRemoteRegion", &["suci_remote_region"]),
    ("RawShareStats", &["suci_share_stats"]),
    ("RawSignal", &["suci_signal"]),
    ("RawSocketCounters", &["suci_socket_counters"]),
    ("SendOptions", &["suci_send_options"]),
    ("SocketPointer", &["datagram_socket *"]),
    ("Unflushed", &["suci_unflushed"]),
];

/// Returns what a Rust type may be called in C.
fn in_c(rust: &str) -> Vec<String> {
    let (before, behind, base) = match rust {
        _ if rust.starts_with("*const ") => ("const ", " *", &rust[7..]),
        _ if rust.starts_with("*mut ") => ("", " *", &rust[5..]),
        _ => ("", "", rust),
    };
    let known = TYPES.iter().find(|(name, _)| *name == base);
    let (_, names) = known.unwrap_or_else(|| panic!("no C type for {rust}: enter it in TYPES"));
    names
        .iter()
        .map(|name| format!("{before}{name}{behind}"))
        .collect()
}

/// Returns the parameters (type and name) and result of each exported function of the sources.
fn rust_functions() -> BTreeMap<String, (Vec<(String, String)>, String)> {
    let mut all = BTreeMap::new();
    let dirs = ["src", "src/cdp", "src/classic", "src/fm"].map(|dir| crate_dir().join(dir));
    let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let text = fs::read_to_string(path).unwrap();
        for part in text.split("extern \"C\" fn ").skip(1) {
            let (name, rest) = part.split_once('(').unwrap();
            let (inside, rest) = rest.split_once(')').unwrap();
            let result = rest.split('{').next().unwrap_or_default();
            let result = result.trim().trim_start_matches("-> ").to_owned();
            let parameter = |text: &str| {
                let (name, kind) = text.trim().split_once(": ")?;
                Some((kind.to_owned(), name.to_owned()))
            };
            let parameters = inside.split(',').filter_map(parameter).collect();
            let prefixes = ["suci_", "datagram", "addressdb_", "ack_", "FM_", "cdp_"];
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                all.insert(name.to_owned(), (parameters, result));
            }
        }
    }
    all
}

#[test]
fn the_functions_of_c_and_rust_have_the_same_parameters() {
    let mut rust = rust_functions();
    for function in functions().into_iter().chain(other_functions()) {
        let name = &function.name;
        let (parameters, result) = rust
            .remove(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        let results = match result.as_str() {
            "" => vec!["void".to_owned()],
            result => in_c(result),
        };
        assert!(results.contains(&function.returns), "{name}: {results:?}");
        assert_eq!(parameters.len(), function.parameters.len(), "{name}");
        for ((kind, rust_name), (c_kind, c_name)) in parameters.iter().zip(&function.parameters) {
            assert!(
                in_c(kind).contains(c_kind),
                "{name}, {c_name}: {kind} and {c_kind}"
            );
            assert_eq!(rust_name, c_name, "{name}");
        }
    }
    assert!(rust.is_empty(), "not declared: {rust:?}");
}

#[test]
fn the_version_of_the_header_is_that_of_the_crate() {
    let text = read("include/suci/suci.h");
    let version = format!("#define SUCI_VERSION \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version));
    for (part, value) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        assert!(
            text.contains(&format!("#define SUCI_VERSION_{part} {value}\n")),
            "{part}"
        );
    }
}

/// Returns the rows of the mapping table: a method of Rust, and what stands for it in C.
fn table() -> BTreeMap<String, String> {
    let text = read("include/suci/suci.h");
    let (_, table) = text
        .split_once("Which function does what a method")
        .unwrap();
    let (_, table) = table.split_once("  ----").unwrap();
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in table.lines().skip(1) {
        let Some(row) = line.strip_prefix(" *  ") else {
            continue;
        };
        match row.strip_prefix("   ") {
            Some(more) => {
                let (_, c) = rows.last_mut().unwrap();
                c.push(' ');
                c.push_str(more.trim());
            }
            None => {
                let (rust, c) = row.split_once("  ").unwrap_or((row, ""));
                rows.push((rust.trim().to_owned(), c.trim().to_owned()));
            }
        }
    }
    rows.into_iter().collect()
}

/// Returns the public methods of the Rust interface, as `Type::method` or `module::function`.
pub(crate) fn methods() -> BTreeSet<String> {
    const TYPES: &[&str] = &[
        "AddressBook",
        "Batch",
        "Error",
        "Found",
        "Message",
        "Next",
        "Node",
        "NodeBuilder",
        "OutgoingMessage",
        "Peer",
        "SharedNode",
        "StatFile",
        "Waker",
    ];
    let mut all = BTreeSet::new();
    let mut dirs = vec![crate_dir().join("../suci/src")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let module = path.file_stem().unwrap().to_str().unwrap();
            let module = match module {
                "mod" => path
                    .parent()
                    .unwrap()
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap(),
                module => module,
            };
            let mut owner = String::new();
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("impl") {
                    let rest = rest.rsplit(" for ").next().unwrap_or(rest);
                    let mut words = rest.split(|letter: char| !letter.is_alphanumeric());
                    let mut all = words.clone();
                    let is_type = |word: &&str| word.starts_with(char::is_uppercase);
                    let type_of = match rest.starts_with('<') {
                        true => all.rev().find(is_type),
                        false => all.find(is_type),
                    };
                    owner = type_of.unwrap_or_default().to_owned();
                    owner = match rest.starts_with('<') {
                        true => words
                            .find(|word| TYPES.contains(word))
                            .map_or(owner, str::to_owned),
                        false => owner,
                    };
                } else if line == "}" {
                    owner.clear();
                }
                let name = |after: &str| {
                    let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                    after
                        .get(..end.unwrap_or(after.len()))
                        .unwrap_or_default()
                        .to_owned()
                };
                let starts = ["    pub fn ", "    pub async fn ", "    pub const fn "];
                if let Some(after) = starts.iter().find_map(|start| line.strip_prefix(start))
                    && TYPES.contains(&owner.as_str())
                {
                    all.insert(format!("{owner}::{}", name(after)));
                }
                if let Some(after) = line.strip_prefix("pub fn ")
                    && ["env", "statistics"].contains(&module)
                {
                    all.insert(format!("{module}::{}", name(after)));
                }
            }
        }
    }
    assert!(
        all.len() > 120,
        "{} methods: the sources are not understood",
        all.len()
    );
    all
}

#[test]
fn each_method_of_rust_and_each_function_of_c_is_in_the_table() {
    let rows = table();
    let known = rows.values().cloned().collect::<Vec<_>>().join("\n");
    let missing: Vec<_> = methods()
        .into_iter()
        .filter(|method| {
            let of_node = method.replace("SharedNode::", "Node::");
            !rows.contains_key(method) && !rows.contains_key(&of_node) && !known.contains(method)
        })
        .collect();
    assert!(missing.is_empty(), "no row in suci.h for {missing:?}");
    let words: BTreeSet<&str> = known
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .collect();
    let declared: BTreeSet<String> = functions().into_iter().map(|it| it.name).collect();
    let missing: Vec<_> = declared
        .iter()
        .filter(|name| !words.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "no row in suci.h names {missing:?}");
    let structs = structs();
    let fields: BTreeSet<&str> = structs
        .iter()
        .flat_map(|it| &it.fields)
        .map(String::as_str)
        .collect();
    for (method, c) in &rows {
        for word in c.split([',', ' ']).filter(|word| word.starts_with("suci_")) {
            let word = word.trim_end_matches(':');
            assert!(
                declared.contains(word) || word.ends_with("_init"),
                "{method}: {word} is not declared"
            );
        }
        for word in c
            .split([',', ' '])
            .filter_map(|word| word.strip_prefix("options."))
        {
            assert!(fields.contains(word), "{method}: {word} is no field");
        }
    }
}

#[test]
fn each_function_has_a_man_page() {
    for function in functions() {
        let page = read(&format!("man/{}.3", function.name));
        let page = match page.strip_prefix(".so man3/") {
            Some(other) => read(&format!("man/{}", other.trim())),
            None => page,
        };
        assert!(
            page.contains(&format!(".Fo {}", function.name)),
            "{}",
            function.name
        );
        assert!(
            page.contains(&format!(".Nm {}", function.name)),
            "{}",
            function.name
        );
        for (kind, name) in &function.parameters {
            let space = if kind.ends_with('*') { "" } else { " " };
            let argument = format!(".Fa \"{kind}{space}{name}\"");
            assert!(page.contains(&argument), "{}: {argument}", function.name);
        }
    }
}

#[test]
fn man_pages_have_no_fault_that_mandoc_finds() {
    for entry in fs::read_dir(crate_dir().join("man")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if let Some(target) = text.strip_prefix(".so man3/") {
            assert!(
                crate_dir().join("man").join(target.trim()).exists(),
                "{}",
                path.display()
            );
            continue;
        }
        for line in text
            .lines()
            .filter_map(|line| line.strip_prefix(".Xr suci"))
        {
            let name = line.split(' ').next().unwrap_or_default();
            let other = crate_dir().join(format!("man/suci{name}.3"));
            assert!(other.exists(), "{}: {}", path.display(), other.display());
        }
        run(Command::new("mandoc")
            .args(["-Tlint", "-Wwarning"])
            .arg(path));
    }
}
