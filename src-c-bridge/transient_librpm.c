#include "transient_librpm.h"

#include <rpm/header.h>
#include <rpm/rpmcli.h>
#include <rpm/rpmdb.h>
#include <rpm/rpmkeyring.h>
#include <rpm/rpmlib.h>
#include <rpm/rpmlog.h>
#include <rpm/rpmmacro.h>
#include <rpm/rpmpgp.h>
#include <rpm/rpmps.h>
#include <rpm/rpmtd.h>
#include <rpm/rpmts.h>
#include <stdlib.h>
#include <string.h>

int
transient_rpm_configure(void)
{
  return rpmReadConfigFiles(NULL, NULL);
}

int
transient_rpm_define(const char *macro)
{
  return rpmDefineMacro(NULL, macro, 0);
}

char *
transient_rpm_expand(const char *text)
{
  return rpmExpand(text, NULL);
}

void
transient_rpm_string_free(char *text)
{
  free(text);
}

static transient_rpm_message log_message;

static int
on_log(rpmlogRec record, rpmlogCallbackData data)
{
  if (log_message)
    log_message(data, rpmlogRecPriority(record), rpmlogRecMessage(record));
  return 0;
}

void
transient_rpm_log(transient_rpm_message message, void *data, int verbose)
{
  log_message = message;
  rpmlogSetCallback(on_log, data);
  rpmSetVerbosity(verbose ? RPMLOG_INFO : RPMLOG_NOTICE);
}

transient_keyring *
transient_keyring_new(const char *root)
{
  if (!root)
    return rpmKeyringNew();
  rpmts ts = rpmtsCreate();
  rpmtsSetRootDir(ts, root);
  rpmKeyring keyring = rpmtsGetKeyring(ts, 1);
  rpmtsFree(ts);
  return keyring;
}

int
transient_keyring_add(transient_keyring *keyring, const char *armour)
{
  uint8_t *packets = NULL;
  size_t length = 0;
  int count = 0;
  if (pgpParsePkts(armour, &packets, &length) != PGPARMOR_PUBKEY)
    count = -1;
  for (size_t at = 0, one = 0; count >= 0 && at < length; at += one)
    {
      if (pgpPubKeyCertLen(packets + at, length - at, &one) != 0 || one == 0)
        {
          count = count ? count : -1;
          break;
        }
      rpmPubkey key = rpmPubkeyNew(packets + at, one);
      if (!key)
        continue;
      rpmKeyringAddKey(keyring, key);
      int subkeys = 0;
      rpmPubkey *subkey = rpmGetSubkeys(key, &subkeys);
      for (int i = 0; i < subkeys; i++)
        {
          rpmKeyringAddKey(keyring, subkey[i]);
          rpmPubkeyFree(subkey[i]);
        }
      free(subkey);
      rpmPubkeyFree(key);
      count++;
    }
  free(packets);
  return count == 0 ? -1 : count;
}

void
transient_keyring_free(transient_keyring *keyring)
{
  rpmKeyringFree(keyring);
}

int
transient_package_verify(const char *path, transient_keyring *keyring, int signatures)
{
  struct rpmQVKArguments_s arguments;
  FD_t file = Fopen(path, "r.ufdio");
  int result = -1;
  if (file && !Ferror(file))
    {
      rpmts ts = rpmtsCreate();
      memset(&arguments, 0, sizeof(arguments));
      arguments.qva_mode = 'K';
      /* Which of the three counts depends on the version of librpm. */
      rpmVSFlags flags = signatures ? 0 : RPMVSF_MASK_NOSIGNATURES;
      arguments.qva_flags = flags;
      rpmtsSetVSFlags(ts, flags);
      rpmtsSetVfyFlags(ts, flags);
      rpmtsSetKeyring(ts, keyring);
      rpmtsSetVfyLevel(ts, signatures ? RPMSIG_DIGEST_TYPE | RPMSIG_SIGNATURE_TYPE : RPMSIG_DIGEST_TYPE);
      result = rpmVerifySignatures(&arguments, ts, file, path) ? 1 : 0;
      rpmtsFree(ts);
    }
  if (file)
    Fclose(file);
  return result;
}

enum transient_trust
transient_package_trust(const char *path, transient_keyring *keyring, int *is_signed)
{
  static const char *const tags[] = { "Rsaheader", "Dsaheader", "Sigpgp", "Siggpg", "Openpgp" };
  enum transient_trust trust = TRANSIENT_TRUST_FAIL;
  *is_signed = 0;
  for (int pass = 0; pass < 2; pass++)
    {
      FD_t file = Fopen(path, "r.ufdio");
      rpmts ts = rpmtsCreate();
      Header header = NULL;
      rpmtsSetKeyring(ts, keyring);
      /* Nothing is required, so that the result tells a missing key from a wrong signature. */
      rpmtsSetVfyLevel(ts, 0);
      rpmtsSetVSFlags(ts, pass == 0 ? RPMVSF_MASK_NOSIGNATURES | RPMVSF_MASK_NODIGESTS : 0);
      rpmRC rc = file ? rpmReadPackageFile(ts, file, path, &header) : RPMRC_FAIL;
      if (pass == 0)
        {
          for (size_t i = 0; header && i < sizeof(tags) / sizeof(*tags); i++)
            {
              rpmTagVal tag = rpmTagGetValue(tags[i]);
              if (tag != RPMTAG_NOT_FOUND && headerIsEntry(header, tag))
                *is_signed = 1;
            }
        }
      else if (rc == RPMRC_OK)
        trust = TRANSIENT_TRUST_OK;
      else if (rc == RPMRC_NOKEY)
        trust = TRANSIENT_TRUST_NOKEY;
      headerFree(header);
      rpmtsFree(ts);
      if (file)
        Fclose(file);
    }
  return trust;
}
