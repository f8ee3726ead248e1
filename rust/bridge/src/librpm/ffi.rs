//! The declarations of `transient_librpm.h`.

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct RawKeyring {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct RawTransaction {
    _opaque: [u8; 0],
}

pub type Installed = unsafe extern "C" fn(*mut c_void, *const c_char, *const *const c_char, usize);
pub type Notify = unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char, u64, u64);
pub type Wants = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
pub type Altered = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, c_int);
pub type Problem = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);
pub type Message = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

pub const TRUST_OK: c_int = 0;
pub const TRUST_NOKEY: c_int = 1;

unsafe extern "C" {
    pub fn transient_rpm_configure() -> c_int;
    pub fn transient_rpm_define(macro_: *const c_char) -> c_int;
    pub fn transient_rpm_expand(text: *const c_char) -> *mut c_char;
    pub fn transient_rpm_string_free(text: *mut c_char);
    pub fn transient_rpm_log(message: Option<Message>, data: *mut c_void, verbose: c_int);
    pub fn transient_keyring_new(root: *const c_char) -> *mut RawKeyring;
    pub fn transient_keyring_add(keyring: *mut RawKeyring, armour: *const c_char) -> c_int;
    pub fn transient_keyring_free(keyring: *mut RawKeyring);
    pub fn transient_package_verify(path: *const c_char, keyring: *mut RawKeyring, signatures: c_int) -> c_int;
    pub fn transient_package_trust(path: *const c_char, keyring: *mut RawKeyring, is_signed: *mut c_int) -> c_int;
    pub fn transient_rpmdb_each(dbpath: *const c_char, each: Installed, data: *mut c_void) -> c_int;
    pub fn transient_rpmdb_altered(wants: Wants, each: Altered, data: *mut c_void) -> c_int;
    pub fn transient_transaction_new() -> *mut RawTransaction;
    pub fn transient_transaction_free(transaction: *mut RawTransaction);
    pub fn transient_transaction_install(transaction: *mut RawTransaction, path: *const c_char) -> c_int;
    pub fn transient_transaction_erase(
        transaction: *mut RawTransaction,
        name: *const c_char,
        epoch: u32,
        version: *const c_char,
        release: *const c_char,
        arch: *const c_char,
    ) -> c_int;
    pub fn transient_transaction_check(transaction: *mut RawTransaction, problem: Problem, data: *mut c_void) -> c_int;
    pub fn transient_transaction_run(
        transaction: *mut RawTransaction,
        replace_files: c_int,
        scripts: c_int,
        notify: Notify,
        problem: Problem,
        data: *mut c_void,
    ) -> c_int;
}
