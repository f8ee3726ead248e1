#include "transient_librpm.h"
typedef int transient_librpm_unused;
