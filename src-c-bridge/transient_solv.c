#include "transient_solv.h"
typedef int transient_solv_unused;
