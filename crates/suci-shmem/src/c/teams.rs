//! Teams and contexts.

use super::{Ctx, TeamHandle, export};
use crate::arguments::give;
use crate::runtime::{TEAM_WORLD, runtime};
use crate::team::{Members, Team};
use std::ffi::{c_int, c_long};

/// `SHMEM_TEAM_NUM_CONTEXTS`
const NUM_CONTEXTS: c_long = 1;

/// `SHMEM_TEAM_INVALID`, `SHMEM_CTX_INVALID`
const INVALID: usize = 0;

/// Options of contexts that there are.
const CTX_OPTIONS: c_long = 7;

/// `shmem_team_config_t`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    num_contexts: c_int,
}

/// The contexts that a configuration asks for.
///
/// # Safety
/// It is null or points to a configuration.
unsafe fn contexts(config: *const Config, mask: c_long) -> c_int {
    if config.is_null() || mask & NUM_CONTEXTS == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { config.read_unaligned().num_contexts }
}

fn number(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(-1)
}

export!(safe ["team_my_pe"] (team: TeamHandle) -> c_int {
    runtime().find_team(team).map_or(-1, |team| number(team.rank))
});
export!(safe ["team_n_pes"] (team: TeamHandle) -> c_int {
    runtime().find_team(team).map_or(-1, |team| number(team.members.size()))
});
export!(["team_get_config"]
(team: TeamHandle, config_mask: c_long, config: *mut Config) -> c_int {
    let Some(team) = runtime().find_team(team) else {
        return -1;
    };
    if config_mask & !NUM_CONTEXTS != 0 || config_mask != 0 && config.is_null() {
        return -1;
    }
    if config_mask != 0 {
        let num_contexts = team.contexts;
        config.write_unaligned(Config { num_contexts });
    }
    0
});
export!(safe ["team_translate_pe"]
(src_team: TeamHandle, src_pe: c_int, dest_team: TeamHandle) -> c_int {
    translate(src_team, src_pe, dest_team).map_or(-1, number)
});
export!(["team_split_strided"] (parent_team: TeamHandle, start: c_int, stride: c_int, size: c_int,
config: *const Config, config_mask: c_long, new_team: *mut TeamHandle) -> c_int {
    give(new_team, INVALID, "new_team");
    let Some(parent) = runtime().find_team(parent_team) else {
        return -1;
    };
    let Some(members) = parent.members.select(start, stride, size) else {
        return -1;
    };
    let teams = [(members, contexts(config, config_mask))];
    match split(&parent, teams) {
        Some([handle]) => new_team.write_unaligned(handle),
        None => return -1,
    }
    0
});
export!(["team_split_2d"] (parent_team: TeamHandle, xrange: c_int, xaxis_config: *const Config,
xaxis_mask: c_long, xaxis_team: *mut TeamHandle, yaxis_config: *const Config,
yaxis_mask: c_long, yaxis_team: *mut TeamHandle) -> c_int {
    give(xaxis_team, INVALID, "xaxis_team");
    give(yaxis_team, INVALID, "yaxis_team");
    let Some(parent) = runtime().find_team(parent_team) else {
        return -1;
    };
    let Some((x, y)) = axes(&parent, xrange) else {
        return -1;
    };
    let x = (x, contexts(xaxis_config, xaxis_mask));
    let y = (y, contexts(yaxis_config, yaxis_mask));
    match split(&parent, [x, y]) {
        Some([x, y]) => {
            xaxis_team.write_unaligned(x);
            yaxis_team.write_unaligned(y);
        }
        None => return -1,
    }
    0
});
export!(safe ["team_destroy"] (team: TeamHandle) { runtime().destroy_team(team) });

export!(["ctx_create"] (options: c_long, ctx: *mut Ctx) -> c_int {
    create(TEAM_WORLD, options, ctx)
});
export!(["team_create_ctx"] (team: TeamHandle, options: c_long, ctx: *mut Ctx) -> c_int {
    create(team, options, ctx)
});
export!(safe ["ctx_destroy"] (ctx: Ctx) { runtime().destroy_context(ctx) });
export!(["ctx_get_team"] (ctx: Ctx, team: *mut TeamHandle) -> c_int {
    let found = runtime().context(ctx);
    let handle = found.as_ref().map_or(INVALID, |context| context.team_handle);
    give(team, handle, "team");
    if found.is_some() { 0 } else { -1 }
});

/// Makes a context.
///
/// # Safety
/// `ctx` points to room for a handle.
unsafe fn create(team: TeamHandle, options: c_long, ctx: *mut Ctx) -> c_int {
    let made = (options & !CTX_OPTIONS == 0).then(|| runtime().add_context(team));
    let made = made.flatten();
    // SAFETY: the caller's promise.
    unsafe { give(ctx, made.unwrap_or(INVALID), "ctx") };
    if made.is_some() { 0 } else { -1 }
}

fn translate(from: TeamHandle, pe: c_int, to: TeamHandle) -> Option<usize> {
    let from = runtime().find_team(from)?;
    let to = runtime().find_team(to)?;
    let pe = from.members.pe(usize::try_from(pe).ok()?)?;
    to.members.rank(pe)
}

/// The members of this process's row and column in a parent of rows of `xrange`.
fn axes(parent: &Team, xrange: c_int) -> Option<(Members, Members)> {
    let all = &parent.members;
    let row = usize::try_from(xrange)
        .ok()
        .filter(|row| *row > 0)?
        .min(all.size());
    let (x, y) = (parent.rank % row, parent.rank / row);
    let select = |start: usize, stride: usize, size: usize| {
        let number = |value: usize| c_int::try_from(value).ok();
        all.select(number(start)?, number(stride)?, number(size)?)
    };
    let of_row = select(y * row, 1, row.min(all.size() - y * row))?;
    let of_column = select(x, row, (all.size() - x).div_ceil(row))?;
    Some((of_row, of_column))
}

/// Makes teams of members of a parent. Blocks until all members of the parent do so. Returns the
/// handles, [`INVALID`] for a team without this process; nothing if there are too many teams.
fn split<const N: usize>(parent: &Team, teams: [(Members, c_int); N]) -> Option<[TeamHandle; N]> {
    let first = runtime().agree_on_numbers(parent, N)?;
    let mut handles = [INVALID; N];
    for ((handle, (members, contexts)), number) in handles.iter_mut().zip(teams).zip(first..) {
        match members.rank(runtime().fabric.me) {
            Some(rank) => {
                *handle = runtime().add_team(Team::new(members, rank, number, contexts));
            }
            None => runtime().release(number, 1),
        }
    }
    Some(handles)
}
