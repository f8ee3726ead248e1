//! Declarations of `src-c-bridge/transient_solv.h`, in its order.

use std::ffi::{c_char, c_int, c_ulonglong, c_void};

#[repr(C)]
#[derive(Debug)]
pub(super) struct Pool {
    _opaque: [u8; 0],
}

#[repr(C)]
#[derive(Debug)]
pub(super) struct Solver {
    _opaque: [u8; 0],
}

pub(super) const INSTALL: c_int = 1;
pub(super) const UPDATE: c_int = 2;
pub(super) const ERASE: c_int = 3;
pub(super) const LOCK: c_int = 4;

unsafe extern "C" {
    pub(super) fn transient_pool_new(arch: *const c_char) -> *mut Pool;
    pub(super) fn transient_pool_free(pool: *mut Pool);
    pub(super) fn transient_solv_error(pool: *mut Pool) -> *const c_char;
    pub(super) fn transient_solv_free(list: *mut c_void);
    pub(super) fn transient_repo_new(
        pool: *mut Pool,
        name: *const c_char,
        priority: c_int,
        subpriority: c_int,
    ) -> c_int;
    pub(super) fn transient_repo_add_rpmdb(pool: *mut Pool, repo: c_int, root: *const c_char) -> c_int;
    pub(super) fn transient_repo_add_rpm(pool: *mut Pool, repo: c_int, path: *const c_char) -> c_int;
    pub(super) fn transient_repo_add_rpmmd(
        pool: *mut Pool,
        repo: c_int,
        path: *const c_char,
        filelists: c_int,
    ) -> c_int;
    pub(super) fn transient_repo_add_solv(pool: *mut Pool, repo: c_int, path: *const c_char, filelists: c_int)
    -> c_int;
    pub(super) fn transient_repo_write_solv(
        pool: *mut Pool,
        repo: c_int,
        path: *const c_char,
        filelists: c_int,
    ) -> c_int;
    pub(super) fn transient_repo_solvables(pool: *mut Pool, repo: c_int, out: *mut *mut c_int) -> c_int;
    pub(super) fn transient_pool_exclude(pool: *mut Pool, ids: *const c_int, count: c_int);
    pub(super) fn transient_pool_prepare(pool: *mut Pool);
    pub(super) fn transient_solvable_name(pool: *mut Pool, id: c_int) -> *const c_char;
    pub(super) fn transient_solvable_evr(pool: *mut Pool, id: c_int) -> *const c_char;
    pub(super) fn transient_solvable_arch(pool: *mut Pool, id: c_int) -> *const c_char;
    pub(super) fn transient_solvable_location(pool: *mut Pool, id: c_int) -> *const c_char;
    pub(super) fn transient_solvable_base(pool: *mut Pool, id: c_int) -> *const c_char;
    pub(super) fn transient_solvable_checksum(
        pool: *mut Pool,
        id: c_int,
        algorithm: *mut *const c_char,
    ) -> *const c_char;
    pub(super) fn transient_solvable_installsize(pool: *mut Pool, id: c_int) -> c_ulonglong;
    pub(super) fn transient_solvable_downloadsize(pool: *mut Pool, id: c_int) -> c_ulonglong;
    pub(super) fn transient_solvable_repo(pool: *mut Pool, id: c_int) -> c_int;
    pub(super) fn transient_solvable_runs(pool: *mut Pool, id: c_int) -> c_int;
    pub(super) fn transient_solvable_requires(
        pool: *mut Pool,
        id: c_int,
        recommends: c_int,
        out: *mut *mut c_int,
    ) -> c_int;
    pub(super) fn transient_dep_string(pool: *mut Pool, dep: c_int) -> *const c_char;
    pub(super) fn transient_dep_providers(pool: *mut Pool, dep: c_int, out: *mut *mut c_int) -> c_int;
    pub(super) fn transient_select(
        pool: *mut Pool,
        word: *const c_char,
        flags: c_int,
        matched: *mut c_int,
        out: *mut *mut c_int,
    ) -> c_int;
    pub(super) fn transient_select_flags(glob: c_int, files: c_int, provides: c_int, any_arch: c_int) -> c_int;
    pub(super) fn transient_select_by_name() -> c_int;
    pub(super) fn transient_pool_set(pool: *mut Pool, ids: *const c_int, count: c_int) -> c_int;
    pub(super) fn transient_solver_new(pool: *mut Pool, weak: c_int, downgrade: c_int, uninstall: c_int)
    -> *mut Solver;
    pub(super) fn transient_solver_free(solver: *mut Solver);
    pub(super) fn transient_solver_solve(solver: *mut Solver, jobs: *const c_int, count: c_int) -> c_int;
    pub(super) fn transient_solver_steps(solver: *mut Solver, out: *mut *mut c_int) -> c_int;
    pub(super) fn transient_solver_problem(solver: *mut Solver, problem: c_int, out: *mut *mut c_int) -> c_int;
    pub(super) fn transient_solver_rule_string(solver: *mut Solver, rule: *const c_int) -> *const c_char;
    pub(super) fn transient_solver_dep_string(solver: *mut Solver, dep: c_int) -> *const c_char;
    pub(super) fn transient_evr_compare(a: *const c_char, b: *const c_char) -> c_int;
}
