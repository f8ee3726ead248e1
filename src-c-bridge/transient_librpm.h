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
#endif
