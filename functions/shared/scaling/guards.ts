/** The guards of sizes: their reviews, and the sizes that a StatefulSet follows. */
import { type Guards, itself, person } from "../base/guards.ts";

/** What a review of a size is about. */
export const sizeReviewGuards = {
  "not-a-downscale": itself("no pod leaves by the change, or there is no number before and after"),
  "object-gone": itself("the object of the scale is not there any more"),
  "ordinals-malformed": person(
    "Kubernetes does not accept the first ordinal of the StatefulSet, so that Sluice cannot tell which pods would leave",
    "write an integer from 0 to 2147483647",
  ),
  "replicas-unclear": itself(
    "only one of the two objects has a number of replicas",
    "nothing: an API server always writes one",
  ),
  "unreadable-object": person("the review cannot be read, or is of another type", "correct the rules of the webhook"),
} as const satisfies Guards;

/** Downscales that no reason makes right. */
export const refusedDownscaleGuards = {
  "no-downscale": person(
    "the StatefulSet has the label that forbids a downscale",
    "take the label away first, in an update of its own",
  ),
  "replicas-dropped": person(
    "the manifest left out the number of replicas, and Kubernetes takes 1",
    "write the number that the message says, or use kubectl scale where 1 is meant",
  ),
} as const satisfies Guards;

/** The time between the downscales of two zones. */
export const pacingGuards = {
  "min-time-between-zones": itself(
    "another zone was made smaller a short time ago",
    "nothing: the message says until when to wait",
  ),
  "last-downscale-malformed": person(
    "Sluice cannot read when a zone was made smaller last",
    "write the annotation as the message says, or remove it",
  ),
} as const satisfies Guards;

/** The size that a StatefulSet follows is not known. */
export const followerGuards = {
  "min-time-missing": person(
    "Sluice cannot read how long to wait after the downscale of another zone",
    "write the label as the message says",
  ),
  "mirror-missing": person(
    "the mirrored object or its kind is not there",
    "make the object, or correct the annotations as the message says",
  ),
  "mirror-without-scale": person("the kind of the mirrored object has no scale", "name an object that has a scale"),
  "mirror-malformed": person(
    "the annotations of the mirrored object name no API version, kind or name",
    "correct the annotations as the message says",
  ),
  "mirror-forbidden": person(
    "a right to the kind of the mirrored object is missing",
    "name the kind in the list mirrored, and render again",
  ),
  "leader-missing": person(
    "the group has no StatefulSet of the name of the leader",
    "correct the annotation that the message names",
  ),
  "leader-circle": person(
    "StatefulSets follow each other in a circle",
    "correct one of the annotations that the message names",
  ),
} as const satisfies Guards;

/** The delay before a downscale. */
export const delayGuards = {
  "delay-malformed": person(
    "Sluice cannot read the delay or the URL for a downscale, so that the size stays",
    "correct the annotation that the message names",
  ),
} as const satisfies Guards;
