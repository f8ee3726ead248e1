/* Bridge to librepo. No logic here; ownership is stated per function.
 *
 * lr_handle_setopt() is variadic, so one handle is made from one struct of settings. A function that fails returns 0 or
 * NULL and fills `error`; its message is freed with transient_librepo_error_clear(). */
#ifndef TRANSIENT_LIBREPO_H
#define TRANSIENT_LIBREPO_H

typedef struct _LrHandle transient_handle;

/* Called with the bytes so far; a result that is not 0 stops the download. */
typedef int (*transient_progress)(void *data, double total, double now);
/* Called when one mirror failed and the next is tried. Returns 0. */
typedef int (*transient_mirror_failure)(void *data, const char *message, const char *url, const char *metadata);

struct transient_settings {
  const char *const *urls; /* NULL-terminated, or NULL */
  const char *mirrorlist;
  const char *metalink;
  const char *destdir;
  const char *userpwd; /* USER:PASSWORD */
  const char *proxy;
  const char *proxy_userpwd;
  const char *sslcacert;
  const char *sslclientcert;
  const char *sslclientkey;
  const char *gnupghome; /* checks the signature of repomd.xml with its keys */
  const char *useragent;
  long sslverify;
  long timeout;       /* seconds */
  long minrate;       /* bytes a second, for `timeout` seconds */
  long long maxspeed; /* bytes a second, or 0 */
  long parallel;
  transient_progress progress;
  transient_mirror_failure mirror_failure;
  void *progress_data; /* for both */
};

enum transient_failure {
  TRANSIENT_FAILURE_OTHER = 0,
  TRANSIENT_FAILURE_STATUS,
  TRANSIENT_FAILURE_CHECKSUM,
  TRANSIENT_FAILURE_SIGNATURE,
  TRANSIENT_FAILURE_INTERRUPTED,
};

struct transient_librepo_error {
  int kind;
  char *message;
};

void transient_librepo_error_clear(struct transient_librepo_error *error);

/* Owned by the caller: transient_handle_free(). The settings are copied, but for `progress_data`. */
transient_handle *transient_handle_new(const struct transient_settings *settings, struct transient_librepo_error *error);
void transient_handle_free(transient_handle *handle);

/* Fetches repomd.xml and the metadata of these types (NULL-terminated) into `destdir`. */
int transient_handle_metadata(transient_handle *handle, const char *const *types, struct transient_librepo_error *error);
/* Fetches one address into an open file. */
int transient_handle_url(transient_handle *handle, const char *url, int fd, struct transient_librepo_error *error);

struct transient_target {
  transient_handle *handle;
  const char *location;
  const char *base;      /* or NULL */
  const char *dest;      /* file name */
  const char *algorithm; /* or NULL */
  const char *checksum;  /* or NULL */
  long long size;        /* or 0 */
  transient_progress progress;
  int (*mirror_failure)(void *data, const char *message, const char *url); /* returns 0 */
  void *progress_data; /* for both */
  char *error; /* out: why this one failed; freed with transient_librepo_string_free() */
};

/* Fetches files, several at a time. Fails only where none could be tried; see each target's `error`. */
int transient_packages(struct transient_target *targets, int count, struct transient_librepo_error *error);
void transient_librepo_string_free(char *text);

/* 1 when the open file has this checksum, 0 when not, -1 when it cannot be read. */
int transient_checksum_matches(int fd, const char *algorithm, const char *hex);

/* Adds a key file to the keyring in a directory. */
int transient_gpg_import(const char *key, const char *home, struct transient_librepo_error *error);
#endif
