//! The types beside those of the installed headers.

use super::*;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

/// Writes assertions in C that fields of a structure have the offsets that they have here.
macro_rules! same {
    ($out:ident, $structure:literal, $rust:ident, $($name:literal = $field:ident),+ $(,)?) => {
        $(writeln!(
            $out,
            "_Static_assert(offsetof(struct {0}, {1}) == {2}, \"{0}.{1}\");",
            $structure,
            $name,
            offset_of!($rust, $field)
        ).unwrap();)+
        // Newer headers have more fields at the end.
        writeln!(
            $out,
            "_Static_assert(sizeof(struct {0}) + {2} >= {1}, \"size of {0}\");",
            $structure,
            size_of::<$rust>(),
            NEWER_SLOTS * size_of::<usize>(),
        ).unwrap();
    };
}

/// Slots that tables have here and in newer headers, and not in those of 1.17: at most four.
const NEWER_SLOTS: usize = 4;

fn plain(out: &mut String) {
    same!(
        out,
        "fid",
        Fid,
        "fclass" = class,
        "context" = context,
        "ops" = ops,
    );
    same!(
        out,
        "fi_tx_attr",
        TxAttr,
        "caps" = caps,
        "mode" = mode,
        "op_flags" = op_flags,
        "msg_order" = msg_order,
        "comp_order" = comp_order,
        "inject_size" = inject_size,
        "size" = size,
        "iov_limit" = iov_limit,
        "rma_iov_limit" = rma_iov_limit,
        "tclass" = tclass,
    );
    same!(
        out,
        "fi_rx_attr",
        RxAttr,
        "caps" = caps,
        "mode" = mode,
        "op_flags" = op_flags,
        "msg_order" = msg_order,
        "comp_order" = comp_order,
        "total_buffered_recv" = total_buffered_recv,
        "size" = size,
        "iov_limit" = iov_limit,
    );
    same!(
        out,
        "fi_ep_attr",
        EpAttr,
        "type" = kind,
        "protocol" = protocol,
        "protocol_version" = protocol_version,
        "max_msg_size" = max_msg_size,
        "msg_prefix_size" = msg_prefix_size,
        "max_order_raw_size" = max_order_raw_size,
        "max_order_war_size" = max_order_war_size,
        "max_order_waw_size" = max_order_waw_size,
        "mem_tag_format" = mem_tag_format,
        "tx_ctx_cnt" = tx_ctx_cnt,
        "rx_ctx_cnt" = rx_ctx_cnt,
        "auth_key_size" = auth_key_size,
        "auth_key" = auth_key,
    );
    same!(
        out,
        "fi_domain_attr",
        DomainAttr,
        "domain" = domain,
        "name" = name,
        "threading" = threading,
        "control_progress" = control_progress,
        "data_progress" = data_progress,
        "resource_mgmt" = resource_mgmt,
        "av_type" = av_type,
        "mr_mode" = mr_mode,
        "mr_key_size" = mr_key_size,
        "cq_data_size" = cq_data_size,
        "cq_cnt" = cq_cnt,
        "ep_cnt" = ep_cnt,
        "tx_ctx_cnt" = tx_ctx_cnt,
        "rx_ctx_cnt" = rx_ctx_cnt,
        "max_ep_tx_ctx" = max_ep_tx_ctx,
        "max_ep_rx_ctx" = max_ep_rx_ctx,
        "max_ep_stx_ctx" = max_ep_stx_ctx,
        "max_ep_srx_ctx" = max_ep_srx_ctx,
        "cntr_cnt" = cntr_cnt,
        "mr_iov_limit" = mr_iov_limit,
        "caps" = caps,
        "mode" = mode,
        "auth_key" = auth_key,
        "auth_key_size" = auth_key_size,
        "max_err_data" = max_err_data,
        "mr_cnt" = mr_cnt,
        "tclass" = tclass,
    );
    same!(
        out,
        "fi_fabric_attr",
        FabricAttr,
        "fabric" = fabric,
        "name" = name,
        "prov_name" = prov_name,
        "prov_version" = prov_version,
        "api_version" = api_version,
    );
    same!(
        out,
        "fi_info",
        Info,
        "next" = next,
        "caps" = caps,
        "mode" = mode,
        "addr_format" = addr_format,
        "src_addrlen" = src_addrlen,
        "dest_addrlen" = dest_addrlen,
        "src_addr" = src_addr,
        "dest_addr" = dest_addr,
        "handle" = handle,
        "tx_attr" = tx_attr,
        "rx_attr" = rx_attr,
        "ep_attr" = ep_attr,
        "domain_attr" = domain_attr,
        "fabric_attr" = fabric_attr,
        "nic" = nic,
    );
    same!(
        out,
        "fi_provider",
        Provider,
        "version" = version,
        "fi_version" = fi_version,
        "context" = context,
        "name" = name,
        "getinfo" = getinfo,
        "fabric" = fabric,
        "cleanup" = cleanup,
    );
    same!(
        out,
        "fi_msg",
        Msg,
        "msg_iov" = iov,
        "desc" = desc,
        "iov_count" = iov_count,
        "addr" = addr,
        "context" = context,
        "data" = data,
    );
    same!(
        out,
        "fi_msg_tagged",
        MsgTagged,
        "msg_iov" = iov,
        "desc" = desc,
        "iov_count" = iov_count,
        "addr" = addr,
        "tag" = tag,
        "ignore" = ignore,
        "context" = context,
        "data" = data,
    );
    same!(
        out,
        "fi_av_attr",
        AvAttr,
        "type" = kind,
        "rx_ctx_bits" = rx_ctx_bits,
        "count" = count,
        "ep_per_node" = ep_per_node,
        "name" = name,
        "map_addr" = map_addr,
        "flags" = flags,
    );
}

fn tables(out: &mut String) {
    same!(
        out,
        "fi_ops",
        FiOps,
        "size" = size,
        "close" = close,
        "bind" = bind,
        "control" = control,
        "ops_open" = ops_open,
        "tostr" = tostr,
        "ops_set" = ops_set,
    );
    same!(
        out,
        "fid_fabric",
        FidFabric,
        "fid" = fid,
        "ops" = ops,
        "api_version" = api_version,
    );
    same!(
        out,
        "fi_ops_fabric",
        OpsFabric,
        "size" = size,
        "domain" = domain,
        "passive_ep" = passive_ep,
        "eq_open" = eq_open,
        "wait_open" = wait_open,
        "trywait" = trywait,
        "domain2" = domain2,
    );
    same!(
        out,
        "fid_domain",
        FidDomain,
        "fid" = fid,
        "ops" = ops,
        "mr" = mr,
    );
    same!(
        out,
        "fi_ops_domain",
        OpsDomain,
        "size" = size,
        "av_open" = av_open,
        "cq_open" = cq_open,
        "endpoint" = endpoint,
        "scalable_ep" = scalable_ep,
        "cntr_open" = cntr_open,
        "poll_open" = poll_open,
        "stx_ctx" = stx_ctx,
        "srx_ctx" = srx_ctx,
        "query_atomic" = query_atomic,
        "query_collective" = query_collective,
        "endpoint2" = endpoint2,
    );
    same!(out, "fid_av", FidAv, "fid" = fid, "ops" = ops,);
    same!(
        out,
        "fi_ops_av",
        OpsAv,
        "size" = size,
        "insert" = insert,
        "insertsvc" = insertsvc,
        "insertsym" = insertsym,
        "remove" = remove,
        "lookup" = lookup,
        "straddr" = straddr,
        "av_set" = av_set,
    );
    same!(
        out,
        "fid_ep",
        FidEp,
        "fid" = fid,
        "ops" = ops,
        "cm" = cm,
        "msg" = msg,
        "rma" = rma,
        "tagged" = tagged,
        "atomic" = atomic,
        "collective" = collective,
    );
    same!(
        out,
        "fi_ops_ep",
        OpsEp,
        "size" = size,
        "cancel" = cancel,
        "getopt" = getopt,
        "setopt" = setopt,
        "tx_ctx" = tx_ctx,
        "rx_ctx" = rx_ctx,
        "rx_size_left" = rx_size_left,
        "tx_size_left" = tx_size_left,
    );
    same!(
        out,
        "fi_ops_cm",
        OpsCm,
        "size" = size,
        "setname" = setname,
        "getname" = getname,
        "getpeer" = getpeer,
        "connect" = connect,
        "listen" = listen,
        "accept" = accept,
        "reject" = reject,
        "shutdown" = shutdown,
        "join" = join,
    );
    same!(
        out,
        "fi_ops_msg",
        OpsMsg,
        "size" = size,
        "recv" = recv,
        "recvv" = recvv,
        "recvmsg" = recvmsg,
        "send" = send,
        "sendv" = sendv,
        "sendmsg" = sendmsg,
        "inject" = inject,
        "senddata" = senddata,
        "injectdata" = injectdata,
    );
    same!(
        out,
        "fi_ops_tagged",
        OpsTagged,
        "size" = size,
        "recv" = recv,
        "recvv" = recvv,
        "recvmsg" = recvmsg,
        "send" = send,
        "sendv" = sendv,
        "sendmsg" = sendmsg,
        "inject" = inject,
        "senddata" = senddata,
        "injectdata" = injectdata,
    );
}

fn queues(out: &mut String) {
    same!(
        out,
        "fi_cq_attr",
        CqAttr,
        "size" = size,
        "flags" = flags,
        "format" = format,
        "wait_obj" = wait_obj,
        "signaling_vector" = signaling_vector,
        "wait_cond" = wait_cond,
        "wait_set" = wait_set,
    );
    same!(
        out,
        "fi_cq_tagged_entry",
        CqTaggedEntry,
        "op_context" = op_context,
        "flags" = flags,
        "len" = len,
        "buf" = buf,
        "data" = data,
        "tag" = tag,
    );
    same!(
        out,
        "fi_cq_err_entry",
        CqErrEntry,
        "op_context" = entry,
        "olen" = olen,
        "err" = err,
        "prov_errno" = prov_errno,
        "err_data" = err_data,
        "err_data_size" = err_data_size,
    );
    same!(out, "fid_cq", FidCq, "fid" = fid, "ops" = ops,);
    same!(
        out,
        "fi_ops_cq",
        OpsCq,
        "size" = size,
        "read" = read,
        "readfrom" = readfrom,
        "readerr" = readerr,
        "sread" = sread,
        "sreadfrom" = sreadfrom,
        "signal" = signal,
        "strerror" = strerror,
    );
    same!(
        out,
        "fi_cntr_attr",
        CntrAttr,
        "events" = events,
        "wait_obj" = wait_obj,
        "wait_set" = wait_set,
        "flags" = flags,
    );
    same!(out, "fid_cntr", FidCntr, "fid" = fid, "ops" = ops,);
    same!(
        out,
        "fi_ops_cntr",
        OpsCntr,
        "size" = size,
        "read" = read,
        "readerr" = readerr,
        "add" = add,
        "set" = set,
        "wait" = wait,
        "adderr" = adderr,
        "seterr" = seterr,
    );
    same!(
        out,
        "fi_eq_attr",
        EqAttr,
        "size" = size,
        "flags" = flags,
        "wait_obj" = wait_obj,
        "signaling_vector" = signaling_vector,
        "wait_set" = wait_set,
    );
    same!(out, "fid_eq", FidEq, "fid" = fid, "ops" = ops,);
    same!(
        out,
        "fi_ops_eq",
        OpsEq,
        "size" = size,
        "read" = read,
        "readerr" = readerr,
        "write" = write,
        "sread" = sread,
        "strerror" = strerror,
    );
    same!(
        out,
        "fi_ops_mr",
        OpsMr,
        "size" = size,
        "reg" = reg,
        "regv" = regv,
        "regattr" = regattr,
    );
}

#[test]
fn types_are_those_of_the_headers() {
    let mut source = String::from(
        "#include <stddef.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_cm.h>\n\
         #include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n#include <rdma/fi_eq.h>\n\
         #include <rdma/fi_tagged.h>\n#include <rdma/providers/fi_prov.h>\n",
    );
    plain(&mut source);
    tables(&mut source);
    queues(&mut source);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("types.c");
    std::fs::write(&file, source).unwrap();
    compiles(&file);
}

/// Compiles against the installed headers: `make setup` installs them.
fn compiles(file: &Path) {
    let mut compile = Command::new("cc");
    // Other headers than the installed ones: for one who has them.
    if let Some(folder) = std::env::var_os("SUCI_TEST_FABRIC_HEADERS") {
        compile.arg("-I").arg(folder);
    }
    let output = compile.arg("-fsyntax-only").arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
