/* Bridge to librpm. No logic here; ownership is stated per function. */
#ifndef TRANSIENT_LIBRPM_H
#define TRANSIENT_LIBRPM_H
#endif
