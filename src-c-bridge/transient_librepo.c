#include "transient_librepo.h"

#include <glib.h>
#include <librepo/librepo.h>
#include <string.h>

static void
take_error(struct transient_librepo_error *out, GError *error)
{
  out->message = g_strdup(error ? error->message : "unknown failure in librepo");
  out->kind = TRANSIENT_FAILURE_OTHER;
  if (error)
    switch (error->code)
      {
      case LRE_BADSTATUS:
        out->kind = TRANSIENT_FAILURE_STATUS;
        break;
      case LRE_BADCHECKSUM:
        out->kind = TRANSIENT_FAILURE_CHECKSUM;
        break;
      case LRE_BADGPG:
      case LRE_GPGERROR:
        out->kind = TRANSIENT_FAILURE_SIGNATURE;
        break;
      case LRE_INTERRUPTED:
      case LRE_CBINTERRUPTED:
        out->kind = TRANSIENT_FAILURE_INTERRUPTED;
        break;
      }
  g_clear_error(&error);
}

void
transient_librepo_error_clear(struct transient_librepo_error *error)
{
  g_free(error->message);
  error->message = NULL;
}

void
transient_librepo_string_free(char *text)
{
  g_free(text);
}

transient_handle *
transient_handle_new(const struct transient_settings *s, struct transient_librepo_error *out)
{
  GError *error = NULL;
  LrHandle *h = lr_handle_init();
#define SET(option, value)                                                                                             \
  do                                                                                                                   \
    {                                                                                                                  \
      if (!lr_handle_setopt(h, &error, option, value))                                                                 \
        goto failed;                                                                                                   \
    }                                                                                                                  \
  while (0)
#define SET_IF(option, value)                                                                                          \
  do                                                                                                                   \
    {                                                                                                                  \
      if (value)                                                                                                       \
        SET(option, value);                                                                                            \
    }                                                                                                                  \
  while (0)
  SET(LRO_REPOTYPE, LR_YUMREPO);
  SET(LRO_CHECKSUM, 1L);
  SET(LRO_INTERRUPTIBLE, 0L);
  SET_IF(LRO_URLS, s->urls);
  SET_IF(LRO_MIRRORLISTURL, s->mirrorlist);
  SET_IF(LRO_METALINKURL, s->metalink);
  SET_IF(LRO_DESTDIR, s->destdir);
  SET_IF(LRO_USERPWD, s->userpwd);
  SET_IF(LRO_PROXY, s->proxy);
  SET_IF(LRO_PROXYUSERPWD, s->proxy_userpwd);
  SET_IF(LRO_SSLCACERT, s->sslcacert);
  SET_IF(LRO_SSLCLIENTCERT, s->sslclientcert);
  SET_IF(LRO_SSLCLIENTKEY, s->sslclientkey);
  SET_IF(LRO_USERAGENT, s->useragent);
  SET(LRO_SSLVERIFYPEER, s->sslverify);
  SET(LRO_SSLVERIFYHOST, s->sslverify);
  SET(LRO_CONNECTTIMEOUT, s->timeout);
  SET(LRO_LOWSPEEDTIME, s->timeout);
  SET(LRO_LOWSPEEDLIMIT, s->minrate);
  if (s->maxspeed)
    SET(LRO_MAXSPEED, (gint64)s->maxspeed);
  SET(LRO_MAXPARALLELDOWNLOADS, s->parallel);
  if (s->gnupghome)
    {
      SET(LRO_GNUPGHOMEDIR, s->gnupghome);
      SET(LRO_GPGCHECK, 1L);
    }
  if (s->progress)
    {
      SET(LRO_PROGRESSCB, s->progress);
      SET(LRO_HMFCB, s->mirror_failure);
      SET(LRO_PROGRESSDATA, s->progress_data);
    }
  return h;
failed:
  take_error(out, error);
  lr_handle_free(h);
  return NULL;
}

void
transient_handle_free(transient_handle *handle)
{
  lr_handle_free(handle);
}

int
transient_handle_metadata(transient_handle *h, const char *const *types, struct transient_librepo_error *out)
{
  GError *error = NULL;
  LrResult *result = lr_result_init();
  int ok = lr_handle_setopt(h, &error, LRO_YUMDLIST, types) && lr_handle_perform(h, result, &error);
  if (!ok)
    take_error(out, error);
  lr_result_free(result);
  return ok;
}

int
transient_handle_url(transient_handle *h, const char *url, int fd, struct transient_librepo_error *out)
{
  GError *error = NULL;
  if (lr_download_url(h, url, fd, &error))
    return 1;
  take_error(out, error);
  return 0;
}

int
transient_packages(struct transient_target *targets, int count, struct transient_librepo_error *out)
{
  GError *error = NULL;
  GSList *list = NULL;
  int ok = 1;
  for (int i = 0; i < count && ok; i++)
    {
      struct transient_target *t = &targets[i];
      LrPackageTarget *target = lr_packagetarget_new_v2(t->handle, t->location, t->dest,
                                                        t->algorithm ? lr_checksum_type(t->algorithm) : LR_CHECKSUM_UNKNOWN,
                                                        t->checksum, t->size, t->base, FALSE, t->progress,
                                                        t->progress_data, NULL, t->mirror_failure, &error);
      if (target)
        list = g_slist_append(list, target);
      else
        ok = 0;
    }
  ok = ok && lr_download_packages(list, 0, &error);
  int i = 0;
  for (GSList *l = list; l; l = l->next, i++)
    {
      LrPackageTarget *target = l->data;
      targets[i].error = g_strdup(target->err);
    }
  g_slist_free_full(list, (GDestroyNotify)lr_packagetarget_free);
  if (!ok)
    take_error(out, error);
  return ok;
}

int
transient_checksum_matches(int fd, const char *algorithm, const char *hex)
{
  GError *error = NULL;
  gboolean matches = FALSE;
  if (!lr_checksum_fd_cmp(lr_checksum_type(algorithm), fd, hex, FALSE, &matches, &error))
    {
      g_clear_error(&error);
      return -1;
    }
  return matches ? 1 : 0;
}

int
transient_gpg_import(const char *key, const char *home, struct transient_librepo_error *out)
{
  GError *error = NULL;
  if (lr_gpg_import_key(key, home, &error))
    return 1;
  take_error(out, error);
  return 0;
}
