/* See views.h. */
#include "views.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dtypes.h"

atlas_shape_text atlas_shape(const int64_t *dims, uint64_t rank)
{
    atlas_shape_text shape;
    size_t used = (size_t)snprintf(shape.text, sizeof shape.text, "[");
    for (uint64_t i = 0; i < rank && used + 24 < sizeof shape.text; i++)
        used += (size_t)snprintf(shape.text + used, sizeof shape.text - used, "%s%" PRId64, i ? "," : "", dims[i]);
    snprintf(shape.text + used, sizeof shape.text - used, "]");
    return shape;
}

atlas_number_text atlas_number(__int128 value)
{
    atlas_number_text number;
    char digits[48];
    int count = 0;
    bool negative = value < 0;
    unsigned __int128 rest = negative ? -(unsigned __int128)value : (unsigned __int128)value;
    do
        digits[count++] = (char)('0' + (int)(rest % 10));
    while ((rest /= 10) != 0);
    int used = 0;
    if (negative)
        number.text[used++] = '-';
    while (count > 0)
        number.text[used++] = digits[--count];
    number.text[used] = '\0';
    return number;
}

__int128 atlas_product(const int64_t *dims, uint64_t rank)
{
    const __int128 limit = (__int128)1 << 120;
    __int128 result = 1;
    for (uint64_t i = 0; i < rank; i++) {
        if (dims[i] != 0 && (result > limit / (dims[i] < 0 ? -(__int128)dims[i] : dims[i]) ||
                             -result > limit / (dims[i] < 0 ? -(__int128)dims[i] : dims[i])))
            result = (result < 0) != (dims[i] < 0) ? -limit : limit;
        else
            result *= dims[i];
    }
    return result;
}

bool atlas_broadcast(const int64_t *a, uint64_t a_rank, const int64_t *b, uint64_t b_rank, int64_t *joined,
                      uint64_t *rank)
{
    if (a_rank < b_rank)
        return atlas_broadcast(b, b_rank, a, a_rank, joined, rank);
    int64_t result[MOST_RANK];
    for (uint64_t i = 0; i < a_rank; i++)
        result[i] = a[i];
    for (uint64_t i = 1; i <= b_rank; i++) {
        int64_t mine = a[a_rank - i], other = b[b_rank - i];
        if (mine == 1)
            result[a_rank - i] = other;
        else if (other != 1 && other != mine)
            return false;
    }
    memcpy(joined, result, sizeof result);
    *rank = a_rank;
    return true;
}

bool atlas_is_contiguous(const aclTensor *t)
{
    int64_t count = (int64_t)atlas_product(t->view, t->rank), step = 1;
    if (atlas_format_is_private(t->format) || count <= 1)
        return true;
    for (uint64_t i = t->rank; i-- > 0;) {
        if (t->view[i] != 1 && t->strides[i] != step)
            return false;
        step *= t->view[i];
    }
    return true;
}

int atlas_check_size(const char *name, const aclTensor *t)
{
    for (uint64_t i = 0; i < t->rank; i++)
        if (t->view[i] < 0)
            CANNOT_BUILD(TEXT_NEGATIVE_DIM, name, atlas_number(t->view[i]).text);
    if (atlas_product(t->view, t->rank) * 8 > INT64_MAX)
        CANNOT_BUILD(TEXT_TOO_LARGE, name, atlas_number(atlas_product(t->view, t->rank)).text);
    return 0;
}

int atlas_check_strides(const char *name, const aclTensor *t)
{
    __int128 first = t->offset, last = t->offset, storage = atlas_product(t->storage, t->storage_rank);
    for (uint64_t i = 0; i < t->rank; i++) {
        __int128 reach = (__int128)(t->view[i] - 1) * t->strides[i];
        *(reach < 0 ? &first : &last) += reach;
    }
    if (first < 0 || last >= storage) {
        char where[ATLAS_TEXT / 2];
        snprintf(where, sizeof where, TEXT_LEAVES_STORAGE, atlas_number(first).text, atlas_number(last).text,
                 atlas_number(storage).text);
        CANNOT_BUILD(TEXT_INVALID_VIEW, name, where);
    }
    return 0;
}

bool atlas_same_shape(const aclTensor *a, const aclTensor *b)
{
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->view, b->view, a->rank * sizeof *a->view) == 0);
}

bool atlas_is_empty(const aclTensor *t)
{
    for (uint64_t i = 0; i < t->rank; i++)
        if (t->view[i] == 0)
            return true;
    return false;
}

bool atlas_needs_view_copy(const atlas_chip *chip, const aclTensor *out)
{
    bool whole = out->storage_rank == out->rank &&
                 (out->rank == 0 || memcmp(out->storage, out->view, out->rank * sizeof *out->view) == 0);
    return !atlas_is_contiguous(out) || (chip->whole_storage && !whole);
}
