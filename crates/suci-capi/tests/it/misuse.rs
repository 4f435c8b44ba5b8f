//! Every function with wrong arguments, from a program that is made of the header.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::header::{Function, functions};
use crate::toolchain::{GCC, execute, scratch};
use std::fmt::Write as _;

/// The program's values: `h` is the kind of handle, `p` which pointers are null, `n` the kind of
/// numbers.
const PRELUDE: &str = r#"
#include "check.h"

/* Memory that pointers point to: zeros at first, and for the larger n bytes that no size fits. */
static union { char bytes[1 << 16]; uint64_t align; } memory[8];
/* One handle of each kind. */
typedef struct handles {
    suci_node node;
    suci_book book;
    suci_region region;
    suci_context context;
    suci_group group;
    suci_pending pending;
} handles;

static handles wrongs[6];
static unsigned long calls;

/* A pointer, or null if its bit is set; each has memory of its own. */
static void *pointer(unsigned p, unsigned index)
{
    return p & (1u << index) ? NULL : (void *)memory[index % 8].bytes;
}

static const uint64_t numbers[] = {0, 1, UINT64_MAX, (uint64_t)1 << 63, UINT32_MAX};
/* Lengths that no memory has; 0 and 1 have no more than the memory above. */
static const size_t lengths[] = {0, 1, SIZE_MAX, (size_t)1 << 63, SIZE_MAX - 7};

/* A function that combines elements. */
static void lower_byte(const void *lower, const void *higher, void *result, uint32_t element)
{
    (void)higher;
    (void)element;
    memcpy(result, lower, 1);
}

/* Checks a result: a known code, and an error if the handle was wrong. */
static void judge(const char *name, int result, int wrong_handle)
{
    ++calls;
    if (strstr(suci_strerror(result), "later version") || (wrong_handle && result == SUCI_OK)) {
        fprintf(stderr, "%s returned %d\n", name, result);
        exit(1);
    }
}

static suci_node open_node(uint32_t threads)
{
    suci_node_options options;
    suci_node node;
    suci_node_options_init(&options);
    options.id = 1;
    options.listen = "127.0.0.1:0";
    options.threads = threads;
    must(suci_node_open(&options, &node));
    return node;
}

static handles open_handles(uint32_t threads)
{
    static const uint32_t self = 1;
    handles of;
    of.node = open_node(threads);
    must(suci_book_new(&of.book));
    must(suci_region_allocate(of.node, 64, SUCI_REGION_READ, &of.region));
    must(suci_context_open(of.node, &of.context));
    must(suci_group_new(of.node, 3, &self, 1, &of.group));
    must(suci_group_barrier(of.node, of.group, &of.pending, SUCI_SECONDS(1)));
    return of;
}

static void free_handles(handles of)
{
    /* A call may have waited for it. */
    (void)suci_pending_free(of.pending);
    must(suci_group_free(of.group));
    must(suci_context_free(of.context));
    must(suci_region_free(of.region));
    must(suci_book_free(of.book));
    must(suci_node_free(of.node));
}

/* Handles with these numbers. */
static handles numbered(uint64_t node, uint64_t book, uint64_t region, uint64_t context,
                        uint64_t group, uint64_t pending)
{
    handles of;
    of.node.id = node;
    of.book.id = book;
    of.region.id = region;
    of.context.id = context;
    of.group.id = group;
    of.pending.id = pending;
    return of;
}

static void make_handles(void)
{
    uint64_t high = (uint64_t)1 << 32;
    handles right;
    wrongs[0] = numbered(0, 0, 0, 0, 0, 0);
    wrongs[1] = open_handles(0);
    free_handles(wrongs[1]);
    wrongs[2] = numbered(0x1234567890abcdefu, 0x1234567890abcdefu, 0x1234567890abcdefu,
                         0x1234567890abcdefu, 0x1234567890abcdefu, 0x1234567890abcdefu);
    wrongs[3] = numbered(UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    right = open_handles(1);
    /* Handles of other kinds. */
    wrongs[4] = numbered(right.book.id, right.region.id, right.context.id, right.group.id,
                         right.pending.id, right.node.id);
    wrongs[5] = numbered(right.node.id + high, right.book.id + high, right.region.id + high,
                         right.context.id + high, right.group.id + high,
                         right.pending.id + high);
}
"#;

/// The types of handles, each the name of a field after `suci_`.
const HANDLES_OF_C: &[&str] = &[
    "suci_node",
    "suci_book",
    "suci_region",
    "suci_context",
    "suci_group",
    "suci_pending",
];

/// The kinds of wrong handles.
const HANDLES: usize = 6;

/// Returns the argument for a parameter.
fn argument(function: &Function, index: usize) -> String {
    let (kind, name) = &function.parameters[index];
    match kind.as_str() {
        kind if HANDLES_OF_C.contains(&kind) => format!("of.{}", &kind[5..]),
        // No call waits.
        "int64_t" if name == "timeout" || name == "patience" => "0".into(),
        "int64_t" | "uint64_t" | "uint32_t" | "uint8_t" => format!("({kind})numbers[n]"),
        // No descriptor of the program becomes the log.
        "int" if name == "fd" => "n ? -1 : -2".into(),
        "int" => "(int)numbers[n]".into(),
        "size_t" => "lengths[n]".into(),
        "suci_combine" => "n ? lower_byte : NULL".into(),
        _ => format!("({kind})pointer(p, {index})"),
    }
}

/// Returns the calls of one function with all kinds of arguments.
fn calls(function: &Function) -> String {
    let name = &function.name;
    let all: Vec<_> = (0..function.parameters.len())
        .map(|index| argument(function, index))
        .collect();
    let call = format!("{name}({})", all.join(", "));
    let has_handle = function
        .parameters
        .iter()
        .any(|(kind, _)| HANDLES_OF_C.contains(&kind.as_str()));
    let wrong = if has_handle { "wrong" } else { "0" };
    let body = match function.returns.as_str() {
        "int" => format!("judge(\"{name}\", {call}, {wrong});"),
        "void" => format!("{call};"),
        "const char *" => format!("check({call} != NULL);"),
        _ => format!("(void){call};"),
    };
    format!(
        "static void try_{name}(handles of, int wrong, unsigned p, unsigned n)\n{{\n    (void)of, (void)wrong, (void)p, (void)n;\n    {body}\n}}\n"
    )
}

/// Functions that need handles which the others still use, or do what a test should not.
const ENDS: &[&str] = &[
    "suci_node_close",
    "suci_node_free",
    "suci_book_free",
    "suci_region_free",
    "suci_context_free",
    "suci_group_free",
    "suci_wake",
];

fn program() -> String {
    let functions = functions();
    let mut text = String::from(PRELUDE);
    for function in &functions {
        text.push_str(&calls(function));
    }
    text.push_str("typedef void trial(handles, int, unsigned, unsigned);\n");
    text.push_str("static trial *const trials[] = {\n");
    for function in &functions {
        writeln!(text, "    try_{},", function.name).unwrap();
    }
    text.push_str("};\nstatic trial *const on_open[] = {\n");
    for function in functions
        .iter()
        .filter(|it| !ENDS.contains(&it.name.as_str()))
    {
        writeln!(text, "    try_{},", function.name).unwrap();
    }
    let handles = HANDLES;
    writeln!(
        text,
        r#"}};

/* All functions of a list with these handles. */
static void try_all(trial *const *list, size_t count, handles of, int wrong)
{{
    static const unsigned nulls[] = {{0, ~0u, 1, 2, 4, 8, 16, 32, 64}};
    size_t f, p;
    unsigned n, fill;
    for (f = 0; f < count; ++f)
        for (p = 0; p < sizeof nulls / sizeof *nulls; ++p)
            for (n = 0; n < 5; ++n)
                for (fill = 0; fill < 2; ++fill) {{
                    memset(memory, 0, sizeof memory);
                    if (fill) {{
                        /* Sizes that no version has, and lengths that no memory has, in structs. */
                        size_t at;
                        for (at = 0; at < 8; ++at)
                            memset(memory[at].bytes, 0xff, 4);
                    }}
                    list[f](of, wrong, nulls[p], n);
                }}
}}

int main(void)
{{
    handles open[3];
    size_t i, count = sizeof trials / sizeof *trials;
    make_handles();
    for (i = 0; i < {handles}; ++i)
        try_all(trials, count, wrongs[i], 1);
    for (i = 0; i < 3; ++i)
        open[i] = open_handles(i == 1);
    must(suci_node_close(open[2].node, 0));
    for (i = 0; i < 3; ++i)
        try_all(on_open, sizeof on_open / sizeof *on_open, open[i], 0);
    for (i = 0; i < 3; ++i)
        free_handles(open[i]);
    printf("%lu\n", calls);
    return 0;
}}"#
    )
    .unwrap();
    text
}

/// A pointer that is not null is trusted, as the header says: it points to zeros here.
#[test]
fn wrong_arguments_are_error_codes_and_never_a_crash() {
    let source = scratch().join("misuse.c");
    std::fs::write(&source, program()).unwrap();
    let made = execute(&GCC.compile(&source, "misuse", &[]));
    let made: u32 = made.trim().parse().unwrap();
    assert!(made > 20_000, "{made} calls");
}
