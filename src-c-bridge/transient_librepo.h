/* Bridge to librepo. No logic here; ownership is stated per function. */
#ifndef TRANSIENT_LIBREPO_H
#define TRANSIENT_LIBREPO_H
#endif
