#include "transient_solv.h"

#include <errno.h>
#include <fcntl.h>
#include <rpm/header.h>
#include <rpm/rpmdb.h>
#include <rpm/rpmlib.h>
#include <rpm/rpmts.h>
#include <solv/evr.h>
#include <solv/knownid.h>
#include <solv/pool.h>
#include <solv/policy.h>
#include <solv/problems.h>
#include <solv/repo.h>
#include <solv/repo_rpmdb.h>
#include <solv/repo_rpmmd.h>
#include <solv/repo_solv.h>
#include <solv/repo_write.h>
#include <solv/selection.h>
#include <solv/solv_xfopen.h>
#include <solv/solver.h>
#include <solv/transaction.h>
#include <string.h>
#include <unistd.h>

static int
list_out(Queue *q, int **out)
{
  int count = q->count;
  *out = solv_calloc(count + 1, sizeof(int));
  if (count)
    memcpy(*out, q->elements, count * sizeof(int));
  queue_free(q);
  return count;
}

transient_pool *
transient_pool_new(const char *arch)
{
  Pool *pool = pool_create();
  pool_setdisttype(pool, DISTTYPE_RPM);
  pool_set_flag(pool, POOL_FLAG_ADDFILEPROVIDESFILTERED, 1);
  pool_setarch(pool, arch);
  return pool;
}

void
transient_pool_free(transient_pool *pool)
{
  if (pool->considered)
    {
      map_free(pool->considered);
      pool->considered = solv_free(pool->considered);
    }
  pool_free(pool);
}

const char *
transient_solv_error(transient_pool *pool)
{
  return pool_errstr(pool);
}

void
transient_solv_free(void *list)
{
  solv_free(list);
}

int
transient_repo_new(transient_pool *pool, const char *name, int priority, int subpriority)
{
  Repo *repo = repo_create(pool, name);
  repo->priority = priority;
  repo->subpriority = subpriority;
  return repo->repoid;
}

int
transient_repo_add_rpmdb(transient_pool *pool, int repoid, const char *root)
{
  Repo *repo = pool_id2repo(pool, repoid);
  if (rpmReadConfigFiles(NULL, NULL))
    return pool_error(pool, -1, "cannot read rpm's configuration");
  rpmts ts = rpmtsCreate();
  if (rpmtsSetRootDir(ts, root) != 0)
    {
      rpmtsFree(ts);
      return pool_error(pool, -1, "rpm does not accept the root directory %s", root);
    }
  if (rpmtsOpenDB(ts, O_RDONLY) != 0)
    {
      rpmtsFree(ts);
      return pool_error(pool, -1, "cannot open the rpmdb");
    }
  void *state = rpm_state_create(pool, root);
  rpmdbMatchIterator it = rpmtsInitIterator(ts, RPMDBI_PACKAGES, NULL, 0);
  Header header;
  int failed = 0;
  while (it && (header = rpmdbNextIterator(it)) != NULL)
    {
      const char *name = headerGetString(header, RPMTAG_NAME);
      if (!name || !strcmp(name, "gpg-pubkey"))
        continue;
      void *handle = rpm_byrpmh(state, header);
      if (!handle || !repo_add_rpm_handle(repo, handle, REPO_REUSE_REPODATA | REPO_NO_INTERNALIZE))
        {
          failed = pool_error(pool, -1, "cannot read the header of %s", name);
          break;
        }
    }
  rpmdbFreeIterator(it);
  rpm_state_free(state);
  rpmtsFree(ts);
  repo_internalize(repo);
  pool_set_installed(pool, repo);
  return failed;
}

int
transient_repo_add_rpm(transient_pool *pool, int repoid, const char *path)
{
  Id id = repo_add_rpm(pool_id2repo(pool, repoid), path, REPO_REUSE_REPODATA | RPM_ADD_WITH_SHA256SUM);
  return id ? id : -1;
}

static int
add_file(Pool *pool, Repo *repo, const char *path, int (*add)(Repo *, FILE *, void *), void *data)
{
  FILE *fp = solv_xfopen(path, "r");
  if (!fp)
    return pool_error(pool, -1, "%s: %s", path, strerror(errno));
  int result = add(repo, fp, data);
  fclose(fp);
  return result ? -1 : 0;
}

static int
add_rpmmd(Repo *repo, FILE *fp, void *filelists)
{
  return filelists ? repo_add_rpmmd(repo, fp, "FL", REPO_LOCALPOOL | REPO_EXTEND_SOLVABLES) : repo_add_rpmmd(repo, fp, 0, 0);
}

static int
add_solv(Repo *repo, FILE *fp, void *filelists)
{
  return repo_add_solv(repo, fp, filelists ? REPO_LOCALPOOL | REPO_EXTEND_SOLVABLES : 0);
}

int
transient_repo_add_rpmmd(transient_pool *pool, int repoid, const char *path, int filelists)
{
  return add_file(pool, pool_id2repo(pool, repoid), path, add_rpmmd, filelists ? pool : NULL);
}

int
transient_repo_add_solv(transient_pool *pool, int repoid, const char *path, int filelists)
{
  return add_file(pool, pool_id2repo(pool, repoid), path, add_solv, filelists ? pool : NULL);
}

/* Texts that no question needs would only make the cache slower to load. */
static int
keep_key(Repo *repo, Repokey *key, void *data)
{
  (void)data;
  switch (key->name)
    {
    case SOLVABLE_SUMMARY:
    case SOLVABLE_DESCRIPTION:
    case SOLVABLE_URL:
    case SOLVABLE_LICENSE:
    case SOLVABLE_GROUP:
    case SOLVABLE_PACKAGER:
    case SOLVABLE_BUILDHOST:
    case SOLVABLE_HEADEREND:
      return KEY_STORAGE_DROPPED;
    }
  return repo_write_stdkeyfilter(repo, key, NULL);
}

int
transient_repo_write_solv(transient_pool *pool, int repoid, const char *path, int filelists)
{
  Repo *repo = pool_id2repo(pool, repoid);
  FILE *fp = fopen(path, "we");
  if (!fp)
    return pool_error(pool, -1, "%s: %s", path, strerror(errno));
  int result;
  Repowriter *writer = repowriter_create(repo);
  if (filelists)
    {
      repowriter_set_repodatarange(writer, repo->nrepodata - 1, repo->nrepodata);
      repowriter_set_flags(writer, REPOWRITER_NO_STORAGE_SOLVABLE);
    }
  else
    repowriter_set_keyfilter(writer, keep_key, NULL);
  result = repowriter_write(writer, fp);
  repowriter_free(writer);
  if (fclose(fp) != 0 && !result)
    return pool_error(pool, -1, "%s: %s", path, strerror(errno));
  return result ? -1 : 0;
}

int
transient_repo_solvables(transient_pool *pool, int repoid, int **out)
{
  Repo *repo = pool_id2repo(pool, repoid);
  Queue q;
  Id p;
  Solvable *s;
  queue_init(&q);
  FOR_REPO_SOLVABLES(repo, p, s)
    queue_push(&q, p);
  return list_out(&q, out);
}

void
transient_pool_exclude(transient_pool *pool, const int *ids, int count)
{
  if (pool->considered)
    map_free(pool->considered);
  else
    pool->considered = solv_calloc(1, sizeof(Map));
  map_init(pool->considered, pool->nsolvables);
  map_setall(pool->considered);
  for (int i = 0; i < count; i++)
    MAPCLR(pool->considered, ids[i]);
}

void
transient_pool_prepare(transient_pool *pool)
{
  pool_addfileprovides(pool);
  pool_createwhatprovides(pool);
}

const char *
transient_solvable_name(transient_pool *pool, int id)
{
  return pool_id2str(pool, pool_id2solvable(pool, id)->name);
}

const char *
transient_solvable_evr(transient_pool *pool, int id)
{
  return pool_id2str(pool, pool_id2solvable(pool, id)->evr);
}

const char *
transient_solvable_arch(transient_pool *pool, int id)
{
  return pool_id2str(pool, pool_id2solvable(pool, id)->arch);
}

const char *
transient_solvable_location(transient_pool *pool, int id)
{
  return solvable_lookup_location(pool_id2solvable(pool, id), NULL);
}

const char *
transient_solvable_base(transient_pool *pool, int id)
{
  return solvable_lookup_str(pool_id2solvable(pool, id), SOLVABLE_MEDIABASE);
}

const char *
transient_solvable_checksum(transient_pool *pool, int id, const char **algorithm)
{
  Id type = 0;
  const char *hex = solvable_lookup_checksum(pool_id2solvable(pool, id), SOLVABLE_CHECKSUM, &type);
  *algorithm = hex ? solv_chksum_type2str(type) : NULL;
  return hex;
}

unsigned long long
transient_solvable_installsize(transient_pool *pool, int id)
{
  return solvable_lookup_num(pool_id2solvable(pool, id), SOLVABLE_INSTALLSIZE, 0);
}

unsigned long long
transient_solvable_downloadsize(transient_pool *pool, int id)
{
  return solvable_lookup_num(pool_id2solvable(pool, id), SOLVABLE_DOWNLOADSIZE, 0);
}

int
transient_solvable_repo(transient_pool *pool, int id)
{
  Solvable *s = pool_id2solvable(pool, id);
  return s->repo ? s->repo->repoid : 0;
}

int
transient_solvable_runs(transient_pool *pool, int id)
{
  Solvable *s = pool_id2solvable(pool, id);
  return s->arch != ARCH_SRC && s->arch != ARCH_NOSRC && !pool_badarch_solvable(pool, s);
}

int
transient_solvable_requires(transient_pool *pool, int id, int recommends, int **out)
{
  Queue q;
  queue_init(&q);
  solvable_lookup_deparray(pool_id2solvable(pool, id), recommends ? SOLVABLE_RECOMMENDS : SOLVABLE_REQUIRES, &q, 0);
  return list_out(&q, out);
}

const char *
transient_dep_string(transient_pool *pool, int dep)
{
  return pool_dep2str(pool, dep);
}

int
transient_dep_providers(transient_pool *pool, int dep, int **out)
{
  Queue q;
  Id p, pp;
  queue_init(&q);
  FOR_PROVIDES(p, pp, dep)
    queue_push(&q, p);
  return list_out(&q, out);
}

int
transient_select(transient_pool *pool, const char *word, int flags, int *matched, int **out)
{
  Queue selection, packages;
  queue_init(&selection);
  queue_init(&packages);
  *matched = selection_make(pool, &selection, word, flags);
  selection_solvables(pool, &selection, &packages);
  queue_free(&selection);
  return list_out(&packages, out);
}

int
transient_select_flags(int glob, int files, int provides, int badarch)
{
  return (files ? SELECTION_FILELIST : SELECTION_NAME | SELECTION_CANON | SELECTION_DOTARCH | SELECTION_REL)
         | (glob ? SELECTION_GLOB : 0) | (provides ? SELECTION_PROVIDES : 0) | (badarch ? SELECTION_WITH_BADARCH : 0);
}

int
transient_select_by_name(void)
{
  return SELECTION_NAME;
}

int
transient_pool_set(transient_pool *pool, const int *ids, int count)
{
  return pool_ids2whatprovides(pool, (Id *)ids, count);
}

transient_solver *
transient_solver_new(transient_pool *pool, int weak, int downgrade, int uninstall)
{
  Solver *solver = solver_create(pool);
  solver_set_flag(solver, SOLVER_FLAG_IGNORE_RECOMMENDED, !weak);
  solver_set_flag(solver, SOLVER_FLAG_ALLOW_DOWNGRADE, downgrade);
  solver_set_flag(solver, SOLVER_FLAG_ALLOW_UNINSTALL, uninstall);
  solver_set_flag(solver, SOLVER_FLAG_ALLOW_VENDORCHANGE, 1);
  solver_set_flag(solver, SOLVER_FLAG_KEEP_ORPHANS, 1);
  solver_set_flag(solver, SOLVER_FLAG_BEST_OBEY_POLICY, 1);
  solver_set_flag(solver, SOLVER_FLAG_YUM_OBSOLETES, 1);
  return solver;
}

void
transient_solver_free(transient_solver *solver)
{
  solver_free(solver);
}

int
transient_solver_solve(transient_solver *solver, const int *jobs, int count)
{
  static const Id how[] = {
    [TRANSIENT_INSTALL] = SOLVER_INSTALL,
    [TRANSIENT_UPDATE] = SOLVER_UPDATE,
    [TRANSIENT_ERASE] = SOLVER_ERASE,
    [TRANSIENT_LOCK] = SOLVER_LOCK,
  };
  Queue q;
  queue_init(&q);
  for (int i = 0; i < count; i++)
    queue_push2(&q, how[jobs[3 * i]] | SOLVER_SOLVABLE_ONE_OF | (jobs[3 * i + 2] ? SOLVER_WEAK : 0), jobs[3 * i + 1]);
  int problems = solver_solve(solver, &q);
  queue_free(&q);
  return problems;
}

int
transient_solver_steps(transient_solver *solver, int **out)
{
  Transaction *transaction = solver_create_transaction(solver);
  Queue q;
  queue_init_clone(&q, &transaction->steps);
  transaction_free(transaction);
  return list_out(&q, out);
}

static int
rule_kind(SolverRuleinfo type)
{
  switch (type)
    {
    case SOLVER_RULE_PKG_NOT_INSTALLABLE:
      return TRANSIENT_RULE_NOT_INSTALLABLE;
    case SOLVER_RULE_PKG_NOTHING_PROVIDES_DEP:
    case SOLVER_RULE_JOB_NOTHING_PROVIDES_DEP:
    case SOLVER_RULE_JOB_UNKNOWN_PACKAGE:
      return TRANSIENT_RULE_NOTHING_PROVIDES;
    case SOLVER_RULE_PKG_REQUIRES:
      return TRANSIENT_RULE_REQUIRES;
    case SOLVER_RULE_PKG_CONFLICTS:
    case SOLVER_RULE_PKG_SELF_CONFLICT:
      return TRANSIENT_RULE_CONFLICTS;
    case SOLVER_RULE_PKG_OBSOLETES:
    case SOLVER_RULE_PKG_IMPLICIT_OBSOLETES:
    case SOLVER_RULE_PKG_INSTALLED_OBSOLETES:
    case SOLVER_RULE_YUMOBS:
      return TRANSIENT_RULE_OBSOLETES;
    case SOLVER_RULE_PKG_SAME_NAME:
      return TRANSIENT_RULE_SAME_NAME;
    default:
      return (type & SOLVER_RULE_TYPEMASK) == SOLVER_RULE_JOB ? TRANSIENT_RULE_JOB : TRANSIENT_RULE_OTHER;
    }
}

int
transient_solver_problem(transient_solver *solver, int problem, int **out)
{
  Queue rules, q, infos;
  queue_init(&rules);
  queue_init(&infos);
  queue_init(&q);
  solver_findallproblemrules(solver, problem, &rules);
  for (int i = 0; i < rules.count; i++)
    {
      solver_allruleinfos(solver, rules.elements[i], &infos);
      for (int j = 0; j + 3 < infos.count; j += 4)
        {
          queue_push2(&q, infos.elements[j], infos.elements[j + 1]);
          queue_push2(&q, infos.elements[j + 2], infos.elements[j + 3]);
          queue_push(&q, rule_kind(infos.elements[j]));
        }
    }
  queue_free(&rules);
  queue_free(&infos);
  return list_out(&q, out);
}

const char *
transient_solver_rule_string(transient_solver *solver, const int *rule)
{
  return solver_problemruleinfo2str(solver, rule[0], rule[1], rule[2], rule[3]);
}

const char *
transient_solver_dep_string(transient_solver *solver, int dep)
{
  return pool_dep2str(solver->pool, dep);
}

int
transient_evr_compare(const char *a, const char *b)
{
  /* The pool is only there for the rules of its distribution type. */
  Pool *pool = pool_create();
  pool_setdisttype(pool, DISTTYPE_RPM);
  int result = pool_evrcmp_str(pool, a, b, EVRCMP_COMPARE);
  pool_free(pool);
  return result;
}
