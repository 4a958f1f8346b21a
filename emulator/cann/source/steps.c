/* See steps.h. */
#include "steps.h"

#include <inttypes.h>
#include <stdio.h>

#include "dtypes.h"
#include "views.h"

/* snprintf at the end of a text; what does not fit is cut off. */
#define APPEND(text, used, ...)                                                                               \
    do {                                                                                                      \
        if ((used) + 1 < sizeof(text))                                                                        \
            (used) += (size_t)snprintf((text) + (used), sizeof(text) - (used), __VA_ARGS__);                  \
    } while (0)

void atlas_step(atlas_steps *s, const char *name, const char *operator, int to, const atlas_operand *inputs, int count)
{
    const char *quote = operator == NULL ? "" : "\"";
    APPEND(s->names, s->named, "%s\"%s\"", s->named ? ", " : "", name);
    APPEND(s->kernels, s->used, "%s{\"step\": \"%s\", \"operator\": %s%s%s, \"to\": \"%s\", \"inputs\": [",
           s->used ? ", " : "", name, quote, operator == NULL ? "null" : operator, quote, atlas_dtype_plain(to));
    for (int i = 0; i < count; i++) {
        const atlas_operand *o = &inputs[i];
        APPEND(s->kernels, s->used, "%s{\"dtype\": \"%s\", \"shape\": %s", i ? ", " : "", atlas_dtype_plain(o->dtype),
               atlas_shape(o->dims, (uint64_t)o->rank).text);
        if (o->strides != NULL)
            APPEND(s->kernels, s->used, ", \"strides\": %s", atlas_shape(o->strides, (uint64_t)o->rank).text);
        APPEND(s->kernels, s->used, "}");
    }
    APPEND(s->kernels, s->used, "]}");
}

void atlas_step_contiguous(atlas_steps *s, const char *tensor, const atlas_view *v)
{
    char name[64];
    snprintf(name, sizeof name, "Contiguous(%s)", tensor);
    atlas_step(s, name, "contiguous", v->dtype, &(atlas_operand){v->dtype, v->rank, v->view, v->strides}, 1);
}

void atlas_step_view_copy(atlas_steps *s, const atlas_view *v)
{
    atlas_step(s, "ViewCopy", "view_copy", v->dtype, &(atlas_operand){v->dtype, v->rank, v->view, v->strides}, 1);
}

double atlas_note_launch(const aclOpExecutor *executor, int tensors, const char *const *names, const atlas_steps *steps,
                         aclrtStream stream)
{
    char call[7000], line[7200];
    size_t used = 0;
    if (!atlas_logging() && !atlas_predicting())
        return 0;
    APPEND(call, used, "\"operator\": \"%s\", \"soc\": \"%s\", \"steps\": [%s], \"kernels\": [%s], \"tensors\": {",
           executor->op, atlas_soc()->name, steps->named ? steps->names : "", steps->used ? steps->kernels : "");
    for (int t = 0; t < tensors; t++) {
        const atlas_view *v = &executor->views[t];
        APPEND(call, used, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": %s, \"strides\": %s, \"offset\": %" PRId64 "}",
               t ? ", " : "", names[t], atlas_dtype_plain(v->dtype), atlas_shape(v->view, (uint64_t)v->rank).text,
               atlas_shape(v->strides, (uint64_t)v->rank).text, v->offset);
    }
    APPEND(call, used, "}");
    if (atlas_logging()) {
        snprintf(line, sizeof line, "{\"launch\": %llu, \"stream\": %llu, \"host_us\": %.3f, %s}\n",
                 (unsigned long long)atlas_next_launch(), (unsigned long long)atlas_stream_number(stream),
                 atlas_host_us(), call);
        atlas_log_line(line);
    }
    return atlas_predict(call);
}
