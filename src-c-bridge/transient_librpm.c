#include "transient_librpm.h"

#include <fcntl.h>
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
#include <stdio.h>
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

int
transient_rpmdb_each(const char *dbpath, transient_installed each, void *data)
{
  int result = -1;
  if (dbpath)
    rpmPushMacro(NULL, "_dbpath", NULL, dbpath, RMIL_CMDLINE);
  rpmts ts = rpmtsCreate();
  rpmtsSetVSFlags(ts, RPMVSF_MASK_NOSIGNATURES | RPMVSF_MASK_NODIGESTS);
  if (rpmtsOpenDB(ts, O_RDONLY) == 0)
    {
      rpmdbMatchIterator iterator = rpmtsInitIterator(ts, RPMDBI_PACKAGES, NULL, 0);
      Header header;
      while ((header = rpmdbNextIterator(iterator)))
        {
          rpmtd names = rpmtdNew();
          char *nevra = headerGetAsString(header, RPMTAG_NEVRA);
          size_t count = 0;
          if (headerGet(header, RPMTAG_FILENAMES, names, HEADERGET_EXT))
            count = rpmtdCount(names);
          const char **files = calloc(count + 1, sizeof(*files));
          for (size_t i = 0; files && i < count; i++)
            files[i] = rpmtdNextString(names);
          if (files && nevra)
            each(data, nevra, files, count);
          free(files);
          free(nevra);
          rpmtdFreeData(names);
          rpmtdFree(names);
        }
      rpmdbFreeIterator(iterator);
      result = 0;
    }
  rpmtsFree(ts);
  if (dbpath)
    rpmPopMacro(NULL, "_dbpath");
  return result;
}

static void
each_altered(Header header, const char *nevra, transient_altered each, void *data)
{
  /* Scriptlets may set what is left out here, and time stamps and owners are no content. */
  const rpmVerifyAttrs omit
      = RPMVERIFY_USER | RPMVERIFY_GROUP | RPMVERIFY_MTIME | RPMVERIFY_MODE | RPMVERIFY_RDEV | RPMVERIFY_CAPS;
  rpmfiles files = rpmfilesNew(NULL, header, RPMTAG_BASENAMES, RPMFI_FLAGS_VERIFY);
  for (unsigned int i = 0; i < rpmfilesFC(files); i++)
    {
      if (rpmfilesFState(files, i) != RPMFILE_STATE_NORMAL
          || (rpmfilesFFlags(files, i) & (RPMFILE_CONFIG | RPMFILE_GHOST | RPMFILE_MISSINGOK)))
        continue;
      rpmVerifyAttrs result = rpmfilesVerify(files, i, omit);
      if (result == RPMVERIFY_NONE)
        continue;
      char *path = rpmfilesFN(files, i);
      if (path)
        each(data, nevra, path, result & RPMVERIFY_LSTATFAIL ? TRANSIENT_ALTERED_MISSING : TRANSIENT_ALTERED_CONTENT);
      free(path);
    }
  rpmfilesFree(files);
}

int
transient_rpmdb_altered(transient_wants wants, transient_altered each, void *data)
{
  int result = -1;
  rpmts ts = rpmtsCreate();
  rpmtsSetVSFlags(ts, RPMVSF_MASK_NOSIGNATURES | RPMVSF_MASK_NODIGESTS);
  if (rpmtsOpenDB(ts, O_RDONLY) == 0)
    {
      rpmdbMatchIterator iterator = rpmtsInitIterator(ts, RPMDBI_PACKAGES, NULL, 0);
      Header header;
      while ((header = rpmdbNextIterator(iterator)))
        {
          char *nevra = headerGetAsString(header, RPMTAG_NEVRA);
          if (nevra && wants(data, nevra))
            each_altered(header, nevra, each, data);
          free(nevra);
        }
      rpmdbFreeIterator(iterator);
      result = 0;
    }
  rpmtsFree(ts);
  return result;
}

struct run {
  transient_notify notify;
  void *data;
  FD_t file;
};

static void
step(struct run *run, int kind, const void *header, const char *slot, uint64_t done, uint64_t total)
{
  char *nevra = header ? headerGetAsString((Header)header, RPMTAG_NEVRA) : NULL;
  run->notify(run->data, kind, nevra ? nevra : "", slot, done, total);
  free(nevra);
}

static void *
on_notify(const void *header, const rpmCallbackType what, const rpm_loff_t amount, const rpm_loff_t total, fnpyKey key,
          rpmCallbackData data)
{
  struct run *run = data;
  const char *slot = NULL;
  if (what & (RPMCALLBACK_SCRIPT_START | RPMCALLBACK_SCRIPT_STOP | RPMCALLBACK_SCRIPT_ERROR))
    slot = rpmTagGetName(amount);
  switch (what)
    {
    case RPMCALLBACK_INST_OPEN_FILE:
      run->file = Fopen(key, "r.ufdio");
      if (run->file && Ferror(run->file))
        {
          Fclose(run->file);
          run->file = NULL;
        }
      return run->file;
    case RPMCALLBACK_INST_CLOSE_FILE:
      if (run->file)
        Fclose(run->file);
      run->file = NULL;
      break;
    case RPMCALLBACK_INST_START:
    case RPMCALLBACK_INST_PROGRESS:
      step(run, TRANSIENT_STEP_UNPACK, header, NULL, amount, total);
      break;
    case RPMCALLBACK_UNINST_START:
      step(run, TRANSIENT_STEP_ERASE, header, NULL, amount, total);
      break;
    case RPMCALLBACK_SCRIPT_START:
      step(run, TRANSIENT_STEP_SCRIPT_START, header, slot, 0, 0);
      break;
    case RPMCALLBACK_SCRIPT_STOP:
      /* Lua scriptlets print through this process's stdio. */
      fflush(stdout);
      step(run, TRANSIENT_STEP_SCRIPT_STOP, header, slot, 0, 0);
      break;
    case RPMCALLBACK_SCRIPT_ERROR:
      step(run, total == RPMRC_OK ? TRANSIENT_STEP_SCRIPT_WARNING : TRANSIENT_STEP_SCRIPT_ERROR, header, slot, 0, 0);
      break;
    case RPMCALLBACK_UNPACK_ERROR:
    case RPMCALLBACK_CPIO_ERROR:
      step(run, TRANSIENT_STEP_UNPACK_ERROR, header, NULL, 0, 0);
      break;
    default:
      break;
    }
  return NULL;
}

static int
problem_kind(rpmProblemType type)
{
  switch (type)
    {
    case RPMPROB_NEW_FILE_CONFLICT:
    case RPMPROB_FILE_CONFLICT:
      return TRANSIENT_PROBLEM_FILE_CONFLICT;
    case RPMPROB_DISKSPACE:
    case RPMPROB_DISKNODES:
      return TRANSIENT_PROBLEM_SPACE;
    case RPMPROB_REQUIRES:
    case RPMPROB_CONFLICT:
    case RPMPROB_OBSOLETES:
      return TRANSIENT_PROBLEM_DEPENDENCY;
    /* Signatures are not asked for in a transaction, so only a digest can be wrong. */
    case RPMPROB_VERIFY:
      return TRANSIENT_PROBLEM_DIGEST;
    default:
      return TRANSIENT_PROBLEM_OTHER;
    }
}

static void
report_problems(rpmts ts, transient_problem problem, void *data)
{
  rpmps set = rpmtsProblems(ts);
  rpmpsi iterator = rpmpsInitIterator(set);
  rpmProblem one;
  while ((one = rpmpsiNext(iterator)))
    {
      char *text = rpmProblemString(one);
      problem(data, problem_kind(rpmProblemGetType(one)), text ? text : "");
      free(text);
    }
  rpmpsFreeIterator(iterator);
  rpmpsFree(set);
}

transient_transaction *
transient_transaction_new(void)
{
  rpmts ts = rpmtsCreate();
  rpmtsSetRootDir(ts, "/");
  rpmtsSetVSFlags(ts, RPMVSF_MASK_NOSIGNATURES);
  rpmtsSetVfyFlags(ts, RPMVSF_MASK_NOSIGNATURES);
  rpmtsSetVfyLevel(ts, RPMSIG_DIGEST_TYPE);
  if (rpmtsOpenDB(ts, O_RDWR) == 0)
    return ts;
  rpmtsFree(ts);
  return NULL;
}

void
transient_transaction_free(transient_transaction *transaction)
{
  rpmtsFree(transaction);
}

int
transient_transaction_install(transient_transaction *transaction, const char *path)
{
  FD_t file = Fopen(path, "r.ufdio");
  Header header = NULL;
  int result = -1;
  if (file && !Ferror(file) && rpmReadPackageFile(transaction, file, path, &header) == RPMRC_OK)
    result = rpmtsAddInstallElement(transaction, header, path, 1, NULL);
  headerFree(header);
  if (file)
    Fclose(file);
  return result;
}

int
transient_transaction_erase(transient_transaction *transaction, const char *name, uint32_t epoch, const char *version,
                            const char *release, const char *arch)
{
  rpmdbMatchIterator iterator = rpmtsInitIterator(transaction, RPMDBI_NAME, name, 0);
  Header header;
  int result = 1;
  while (result == 1 && (header = rpmdbNextIterator(iterator)))
    {
      const char *v = headerGetString(header, RPMTAG_VERSION);
      const char *r = headerGetString(header, RPMTAG_RELEASE);
      const char *a = headerGetString(header, RPMTAG_ARCH);
      if (v && r && a && strcmp(v, version) == 0 && strcmp(r, release) == 0 && strcmp(a, arch) == 0
          && headerGetNumber(header, RPMTAG_EPOCH) == epoch)
        result = rpmtsAddEraseElement(transaction, header, headerGetInstance(header)) ? -1 : 0;
    }
  rpmdbFreeIterator(iterator);
  return result;
}

int
transient_transaction_check(transient_transaction *transaction, transient_problem problem, void *data)
{
  int result = rpmtsCheck(transaction);
  report_problems(transaction, problem, data);
  rpmtsClean(transaction);
  return result;
}

int
transient_transaction_run(transient_transaction *transaction, int replace_files, int scripts, transient_notify notify,
                          transient_problem problem, void *data)
{
  struct run run = { .notify = notify, .data = data };
  rpmprobFilterFlags ignore = RPMPROB_FILTER_OLDPACKAGE | RPMPROB_FILTER_REPLACEPKG;
  if (replace_files)
    ignore |= RPMPROB_FILTER_REPLACENEWFILES | RPMPROB_FILTER_REPLACEOLDFILES;
  FD_t output = scripts >= 0 ? fdDup(scripts) : NULL;
  if (output)
    rpmtsSetScriptFd(transaction, output);
  rpmtsSetNotifyCallback(transaction, on_notify, &run);
  int result = rpmtsOrder(transaction);
  if (result == 0)
    result = rpmtsRun(transaction, NULL, ignore);
  report_problems(transaction, problem, data);
  rpmtsSetNotifyCallback(transaction, NULL, NULL);
  rpmtsSetScriptFd(transaction, NULL);
  if (output)
    Fclose(output);
  return result;
}
