/* Bridge to librpm. No logic here; ownership is stated per function.
 *
 * librpm keeps its configuration and its log per process: callers let one thread in at a time. */
#ifndef TRANSIENT_LIBRPM_H
#define TRANSIENT_LIBRPM_H

#include <stddef.h>
#include <stdint.h>

/* Called with each line of librpm's log. */
typedef void (*transient_rpm_message)(void *data, int priority, const char *text);

/* Reads the configuration and macros of this machine. 0 is success. */
int transient_rpm_configure(void);
/* Defines one macro ("name body") for the life of the process. 0 is success. */
int transient_rpm_define(const char *macro);
/* Expands macros. Freed with transient_rpm_string_free(). */
char *transient_rpm_expand(const char *text);
void transient_rpm_string_free(char *text);
/* Sends the log to `message`, or nowhere when it is NULL. `verbose` adds the result of each digest and signature. */
void transient_rpm_log(transient_rpm_message message, void *data, int verbose);

typedef struct rpmKeyring_s transient_keyring;
/* An empty keyring, or with `root` that of its rpmdb. Owned by the caller: transient_keyring_free(). */
transient_keyring *transient_keyring_new(const char *root);
/* Adds every certificate of one armoured block. Returns how many, or -1 when it is not a key. */
int transient_keyring_add(transient_keyring *keyring, const char *armour);
void transient_keyring_free(transient_keyring *keyring);

/* Verifies every digest and, when `signatures` is not 0, requires a good signature. 0 is success, -1 cannot open. */
int transient_package_verify(const char *path, transient_keyring *keyring, int signatures);

enum transient_trust {
  TRANSIENT_TRUST_OK = 0,
  TRANSIENT_TRUST_NOKEY,
  TRANSIENT_TRUST_FAIL,
};
/* What the header's signature is worth; `is_signed` is set when there is one at all. */
enum transient_trust transient_package_trust(const char *path, transient_keyring *keyring, int *is_signed);

/* One installed package; `files` is an array of `count` strings. Everything is valid during the call only. */
typedef void (*transient_installed)(void *data, const char *nevra, const char *const *files, size_t count);
/* Reads the rpmdb, that of the macros or one at `dbpath`. 0 is success. */
int transient_rpmdb_each(const char *dbpath, transient_installed each, void *data);

/* True when files of the package of that name are to be looked at. */
typedef int (*transient_wants)(void *data, const char *nevra);
enum transient_alteration {
  TRANSIENT_ALTERED_MISSING = 1,
  TRANSIENT_ALTERED_CONTENT = 2, /* size, digest or target of a link */
};
/* A file that is not as its record says; valid during the call only. */
typedef void (*transient_altered)(void *data, const char *nevra, const char *path, int alteration);
/* Compares files of installed packages with their records: those that librpm has unpacked, without configuration files
 * and ghosts, by content. 0 is success. */
int transient_rpmdb_altered(transient_wants wants, transient_altered each, void *data);

enum transient_step {
  TRANSIENT_STEP_UNPACK = 0, /* done and total are bytes */
  TRANSIENT_STEP_ERASE,
  TRANSIENT_STEP_SCRIPT_START,
  TRANSIENT_STEP_SCRIPT_STOP,
  TRANSIENT_STEP_SCRIPT_WARNING, /* failed, and the package goes on */
  TRANSIENT_STEP_SCRIPT_ERROR,   /* failed, and so does the package */
  TRANSIENT_STEP_UNPACK_ERROR,
};
/* `slot` is the name of the scriptlet's tag, or NULL. */
typedef void (*transient_notify)(void *data, int step, const char *package, const char *slot, uint64_t done,
                                 uint64_t total);

enum transient_problem_kind {
  TRANSIENT_PROBLEM_OTHER = 0,
  TRANSIENT_PROBLEM_FILE_CONFLICT,
  TRANSIENT_PROBLEM_SPACE,
  TRANSIENT_PROBLEM_DEPENDENCY,
  TRANSIENT_PROBLEM_DIGEST,
};
typedef void (*transient_problem)(void *data, int kind, const char *text);

typedef struct rpmts_s transient_transaction;
/* Over "/" and the rpmdb of the macros. Signatures are not looked at, digests are. Owned by the caller:
 * transient_transaction_free(). NULL when the rpmdb cannot be opened. */
transient_transaction *transient_transaction_new(void);
void transient_transaction_free(transient_transaction *transaction);
/* Adds a file to install or upgrade to. `path` is borrowed until the transaction is freed. 0 is success. */
int transient_transaction_install(transient_transaction *transaction, const char *path);
/* Adds an installed package to remove. 0 is success, 1 not installed. */
int transient_transaction_erase(transient_transaction *transaction, const char *name, uint32_t epoch, const char *version,
                                const char *release, const char *arch);
/* Checks dependencies. 0 is success. */
int transient_transaction_check(transient_transaction *transaction, transient_problem problem, void *data);
/* Orders and runs. `scripts` is a descriptor for what scriptlets print, or -1. 0 is success. */
int transient_transaction_run(transient_transaction *transaction, int replace_files, int scripts, transient_notify notify,
                              transient_problem problem, void *data);
#endif
