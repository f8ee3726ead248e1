#include "transient_librepo.h"
typedef int transient_librepo_unused;
