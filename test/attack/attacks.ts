/** All attacks, in the order in which they run. */
import type { Attack } from "./attack.ts";
import { abortedBodies, stalledPosts, unfinishedEvents, unfinishedReviews } from "./attacks/bodies.ts";
import { forgedOnPlain, longNamespace, manyNames, unknownPods } from "./attacks/reviews.ts";
import { slowConnections, slowOfOneAddress } from "./attacks/slow.ts";
import { idleSockets, metricsOnMany, metricsOnOne } from "./attacks/sockets.ts";
import { malformedRequests } from "./fuzz/fuzz.ts";

export const attacks: readonly Attack[] = [
  malformedRequests,
  metricsOnOne,
  metricsOnMany,
  idleSockets,
  slowConnections,
  slowOfOneAddress,
  longNamespace,
  manyNames,
  unfinishedReviews,
  unfinishedEvents,
  stalledPosts,
  abortedBodies,
  forgedOnPlain,
  unknownPods,
];
