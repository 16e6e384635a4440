/* Windows of a tensor as a matrix: what convolutions multiply. One axis of the matrix has places, of windows
 * one beside the other along some axes of the tensor and from image to image; the other axis has what
 * lies within a window, neighbours in memory (channels) at each of its taps. */
#ifndef SINTER_IR_WINDOWS_H
#define SINTER_IR_WINDOWS_H

#include "ir/view.h"

enum {
    WINDOWS_AXES_MAX = 4,
    WINDOWS_IM2COL_MAX = 3, /* of which TMA counts the places itself */
};

/* Windows along one axis of the tensor. */
typedef struct WindowsAxis {
    int base_axis;
    const Dim *places;      /* windows along it */
    int64_t low;            /* the first element of the first window; below 0 in the border */
    int64_t high;           /* that of the last, counted from the tensor's last element */
    int64_t step;           /* from window to window */
    int64_t taps, tap_step; /* elements of a window, and from one to the next; below 0: from the last */
    int64_t taps_inner;     /* taps of axes whose taps vary faster */
} WindowsAxis;

typedef struct Windows {
    const Value *base; /* the tensor in memory */
    /* It, or under which dims it is seen, a reshape of it: [images, axes, channels], in any order. */
    const Value *seen;
    const Dim *strides[RANK_MAX];       /* of `seen` */
    WindowsAxis axis[WINDOWS_AXES_MAX]; /* those whose places vary fastest first */
    int n;
    int places_axis, within_axis;   /* of the matrix */
    int images_axis, channels_axis; /* of `seen`, as base_axis; images_axis -1: there is one image */
    bool is_by_lines; /* TMA does not count their places, but has boxes of some along the first axis */
    bool is_of_some;  /* the images are some of the base's, others of which follow them */
    const Dim *channels, *first_channel; /* of a window */
    /* Of each axis of the batch: along which axis of `seen` it goes, -1: along none, and how far. */
    struct {
        int base_axis;
        const Dim *step;
    } batch[RANK_MAX];
} Windows;

/* Whether the places are lines of neighbours along the first axis, at each place of the others: some of a
 * line are a box, as of weights that are windows of themselves at each feature. */
bool windows_have_lines(const Windows *windows);

/* Whether `value`, a matrix with its rows or columns along these two axes, is windows of a base that TMA
 * copies as such: known steps and corners within the ranges of its im2col mode (PTX ISA, tensors), or lines
 * whose places are along K; all but channels in steps of 16 bytes. */
bool windows_of(const Graph *graph, Value *value, int mn_axis, int k_axis,
                bool (*is_base)(void *context, const Value *v), void *context, Windows *windows);
/* The same with places along the first of these axes, whatever TMA makes of it, of what is no movement. */
bool windows_found(const Graph *graph, Value *value, int mn_axis, int k_axis, Windows *windows);

#endif
