/* Bridge to libsolv. No logic here; ownership is stated per function. */
#ifndef TRANSIENT_SOLV_H
#define TRANSIENT_SOLV_H
#endif
