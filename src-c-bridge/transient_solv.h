/* Bridge to libsolv. No logic here; ownership is stated per function.
 *
 * A pool owns its repositories and packages; a solver borrows its pool. Lists come back through an `int **` that the
 * caller frees with transient_solv_free(); the return value is their length. Functions that can fail return a
 * negative number and leave the reason in transient_solv_error(). */
#ifndef TRANSIENT_SOLV_H
#define TRANSIENT_SOLV_H

typedef struct s_Pool transient_pool;
typedef struct s_Solver transient_solver;

/* A new pool with RPM's rules for `arch`. Owned by the caller: transient_pool_free(). */
transient_pool *transient_pool_new(const char *arch);
void transient_pool_free(transient_pool *pool);
/* The pool's last error; borrowed until the next call. */
const char *transient_solv_error(transient_pool *pool);
void transient_solv_free(void *list);

/* A new repository in the pool; its number. `priority`: larger wins. */
int transient_repo_new(transient_pool *pool, const char *name, int priority, int subpriority);
/* Fills `repo` from the rpmdb below `root` (its path by rpm's own macros) and makes it the installed one. */
int transient_repo_add_rpmdb(transient_pool *pool, int repo, const char *root);
/* Adds one RPM file: the new package's number. */
int transient_repo_add_rpm(transient_pool *pool, int repo, const char *path);
/* Adds primary metadata, or file lists for packages that are there when `filelists` is not 0. */
int transient_repo_add_rpmmd(transient_pool *pool, int repo, const char *path, int filelists);
/* Adds a file written by transient_repo_write_solv(). `filelists` as it was there. */
int transient_repo_add_solv(transient_pool *pool, int repo, const char *path, int filelists);
/* Writes the packages of `repo`, or only the file lists added last. */
int transient_repo_write_solv(transient_pool *pool, int repo, const char *path, int filelists);
int transient_repo_solvables(transient_pool *pool, int repo, int **out);

/* Leaves these packages, and no others, out of every later question. Nothing may be added afterwards. */
void transient_pool_exclude(transient_pool *pool, const int *ids, int count);
/* Indexes what is provided; to be called after the last repository was filled. */
void transient_pool_prepare(transient_pool *pool);

/* Texts of one package; borrowed from the pool, NULL when absent. `evr` and friends never are. */
const char *transient_solvable_name(transient_pool *pool, int id);
const char *transient_solvable_evr(transient_pool *pool, int id);
const char *transient_solvable_arch(transient_pool *pool, int id);
/* Borrowed until the next call. */
const char *transient_solvable_location(transient_pool *pool, int id);
const char *transient_solvable_base(transient_pool *pool, int id);
const char *transient_solvable_checksum(transient_pool *pool, int id, const char **algorithm);
unsigned long long transient_solvable_installsize(transient_pool *pool, int id);
unsigned long long transient_solvable_downloadsize(transient_pool *pool, int id);
int transient_solvable_repo(transient_pool *pool, int id);
/* 1 when the pool's machine can run the package. */
int transient_solvable_runs(transient_pool *pool, int id);
/* Capabilities by number: what the package requires, or recommends. */
int transient_solvable_requires(transient_pool *pool, int id, int recommends, int **out);

/* The text of a capability; borrowed until the next few calls. */
const char *transient_dep_string(transient_pool *pool, int dep);
/* Packages that provide a capability. */
int transient_dep_providers(transient_pool *pool, int dep, int **out);

/* Packages that a word of the user selects: by what it matched (libsolv's SELECTION_* bits) in `matched`. */
int transient_select(transient_pool *pool, const char *word, int flags, int *matched, int **out);
int transient_select_flags(int glob, int files, int provides, int badarch);
int transient_select_by_name(void);

/* A number that stands for this set of packages in a job. */
int transient_pool_set(transient_pool *pool, const int *ids, int count);

/* Jobs. */
enum transient_job {
  TRANSIENT_INSTALL = 1,
  TRANSIENT_UPDATE = 2,
  TRANSIENT_ERASE = 3,
  TRANSIENT_LOCK = 4,
};

/* A solver over the pool, with dnf's settings. Owned by the caller: transient_solver_free(), before its pool. */
transient_solver *transient_solver_new(transient_pool *pool, int weak, int downgrade, int uninstall);
void transient_solver_free(transient_solver *solver);
/* Solves `count` jobs of (transient_job, set, weak): the number of problems. */
int transient_solver_solve(transient_solver *solver, const int *jobs, int count);
/* The changed packages: those of the installed repository go, the others come. */
int transient_solver_steps(transient_solver *solver, int **out);
/* Quintuples (the library's rule, source, target, capability, transient_rule) that explain problem 1, 2, ... */
int transient_solver_problem(transient_solver *solver, int problem, int **out);
/* The library's own sentence for such a quintuple; borrowed until the next few calls. */
const char *transient_solver_rule_string(transient_solver *solver, const int *rule);
/* transient_dep_string() of the solver's pool. */
const char *transient_solver_dep_string(transient_solver *solver, int dep);

/* What a rule of a problem is about. */
enum transient_rule {
  TRANSIENT_RULE_OTHER = 0,
  TRANSIENT_RULE_NOT_INSTALLABLE,
  TRANSIENT_RULE_NOTHING_PROVIDES,
  TRANSIENT_RULE_REQUIRES,
  TRANSIENT_RULE_CONFLICTS,
  TRANSIENT_RULE_OBSOLETES,
  TRANSIENT_RULE_SAME_NAME,
  TRANSIENT_RULE_JOB,
};

/* Compares two [EPOCH:]VERSION[-RELEASE] as RPM does: negative, 0 or positive. */
int transient_evr_compare(const char *a, const char *b);
#endif
