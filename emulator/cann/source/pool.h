/* A few threads that large launches share. */
#ifndef ATLAS_EMU_POOL_H
#define ATLAS_EMU_POOL_H

/* CPUs that this process may use. */
int pool_width(void);
/* Call part(context, i) for each i below count, on several threads; returns when all are done. Where the
   threads are at work for someone else, the caller does it alone. */
void pool_run(void (*part)(void *context, int i), void *context, int count);

#endif
