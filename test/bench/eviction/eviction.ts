/**
 * `npm run bench -- eviction`: reviews sent straight to the webhook, a storm through the API server, and memory over many
 * reviews.
 */
import { type Benchmark, takeTurns } from "../benchmark.ts";
import { against, type ContenderName, tunedFlags } from "../contenders.ts";
import type { EvictionOptions, EvictionPart } from "../options.ts";
import { tailMs } from "../replacement.ts";
import { readyAfterMs, type Size } from "../sizes.ts";
import { seeded } from "../statistics.ts";
import type { TestBed, Trial } from "../trial.ts";
import {
  type ForgedFigures,
  forgedInBrief,
  forgedInFlight,
  forgedTable,
  honestInFlight,
  mostTimes,
  runForged,
} from "./forged.ts";
import { type MemoryFigures, memoryInBrief, memoryInFlight, memoryTable, runMemory } from "./memory.ts";
import { type ParkedFigures, parkedInBrief, parkedTable, runParked } from "./parked.ts";
import { type ReviewFigures, reviewsInBrief, reviewTable, runReviews, warmUpMs } from "./reviews.ts";
import { restMs } from "./setting.ts";
import { retryAfterMs, runStorm, type StormFigures, stormInBrief, stormTable, workers } from "./storm.ts";

export type EvictionTrial =
  | ({ readonly part: "reviews" } & Trial<ReviewFigures>)
  | ({ readonly part: "storm" } & Trial<StormFigures>)
  | ({ readonly part: "memory" } & Trial<MemoryFigures>)
  | ({ readonly part: "parked" } & Trial<ParkedFigures>)
  | ({ readonly part: "forged" } & Trial<ForgedFigures>);

export function evictionBenchmark(options: EvictionOptions): Benchmark<EvictionTrial> {
  const { inFlight, seconds, reviews } = options;
  const random = seeded(options.seed);
  return {
    name: "eviction",
    method: method(options),
    settings: { restMs, tailMs, tunedFlags, warmUpMs, inFlight, seconds, reviews, workers, retryAfterMs },
    turns: options.parts.flatMap((part) =>
      takeTurns(
        { ...options, what: part, random },
        () => evictionContenders(options, part),
        (place, contender, size) => runPart(part, place, contender, size, options),
      ),
    ),
    inBrief,
    tables: (trials) =>
      options.sizes.flatMap((size) => options.parts.map((part) => tableOf(part, size, trials, options))),
  };
}

/**
 * The contenders of a part. Only Sluice promises something about memory, so the peer takes part in that only by name. The
 * oracle answers no reviews.
 */
export function evictionContenders(
  { contenders, against: other }: Pick<EvictionOptions, "contenders" | "against">,
  part: EvictionPart,
): readonly ContenderName[] {
  const usual: Readonly<Record<EvictionPart, readonly ContenderName[]>> = {
    reviews: ["sluice", "peer-tuned"],
    storm: ["sluice", "peer-tuned", "oracle"],
    memory: ["sluice"],
    parked: ["sluice"],
    forged: ["sluice"],
  };
  const named = contenders?.filter((name) => part === "storm" || name !== "oracle") ?? usual[part];
  return [...named, ...(other === undefined ? [] : [against])];
}

async function runPart(
  part: EvictionPart,
  place: TestBed,
  contender: ContenderName,
  size: Size,
  options: EvictionOptions,
): Promise<EvictionTrial> {
  if (part === "reviews") return { part, ...(await runReviews(place, contender, size, options)) };
  if (part === "storm") return { part, ...(await runStorm(place, contender, size)) };
  if (part === "parked") return { part, ...(await runParked(place, contender, size)) };
  if (part === "forged") return { part, ...(await runForged(place, contender, size, options)) };
  return { part, ...(await runMemory(place, contender, size, options)) };
}

function inBrief(trial: EvictionTrial): string {
  if (trial.part === "reviews") return reviewsInBrief(trial);
  if (trial.part === "parked") return parkedInBrief(trial);
  if (trial.part === "forged") return forgedInBrief(trial);
  return trial.part === "storm" ? stormInBrief(trial) : memoryInBrief(trial);
}

function tableOf(part: EvictionPart, size: Size, trials: readonly EvictionTrial[], options: EvictionOptions): string {
  const contenders = evictionContenders(options, part);
  const own = trials.filter((trial) => trial.size === size.label);
  if (part === "reviews") {
    const reviews = own.filter((trial) => trial.part === "reviews");
    return reviewTable(size, contenders, reviews, options.inFlight);
  }
  if (part === "storm") {
    return stormTable(
      size,
      contenders,
      own.filter((trial) => trial.part === "storm"),
    );
  }
  if (part === "parked") {
    return parkedTable(
      size,
      contenders,
      own.filter((trial) => trial.part === "parked"),
    );
  }
  if (part === "forged") {
    return forgedTable(
      size,
      contenders,
      own.filter((trial) => trial.part === "forged"),
    );
  }
  const memory = own.filter((trial) => trial.part === "memory");
  return memoryTable(size, contenders, memory, options.reviews);
}

function method({ seed, gogc, nodeFlags, seconds, fairness }: EvictionOptions): string {
  return [
    `Pods are Ready ${readyAfterMs / 1000} s after creation. The contenders take turns in random order (seed ${seed}) on one control plane, whose`,
    `processes run with GOGC=${gogc}; each trial has a namespace, a group with a ZoneAwarePodDisruptionBudget, and a contender's process`,
    `of its own, which has rested for ${restMs / 1000} s, so that no ledger is new.`,
    "Reviews: AdmissionReviews v1 of the group's pods in turn, straight to the webhook, over TLS and connections that are kept, for",
    `${seconds} s after ${warmUpMs / 1000} s of warming up, the dry runs before the real ones. No client evicts a pod that was allowed to go, so that the`,
    "same pods are allowed again and again, and all others refused. Sluice writes an allowance to the group's Lease before it gives",
    "it; the peer's are in its memory alone, and to it a dry run is as good as a real one.",
    `Storm: through the API server and a registered webhook. ${workers} workers take pods zone after zone, and ask again ${retryAfterMs} ms after a 429;`,
    "time is from the first eviction until all pods are back and Ready, as a watch of the bench sees it; requests and CPU until",
    `${tailMs / 1000} s later. For each eviction that is allowed the API server itself lists PodDisruptionBudgets, which takes up to 100 ms.`,
    "oracle: the same evictions without a webhook, by a client that keeps the budget itself and sees at once which pod is Ready, so that",
    "it never asks in vain: below it no webhook can come. Its CPU and memory are the bench's own.",
    "Held: as many evictions as one process may hold, each asked again when it is refused, of groups whose zones are never whole.",
    "Another client reads a Namespace fifty times a second beside them and beside the storm.",
    `The API server ${fairness ? "limits requests by priority and fairness, with its defaults" : "has no limits on requests"}.`,
    `Forged: ${forgedInFlight} reviews of pods that there are not, by a process of its own, beside ${honestInFlight} real ones of pods that`,
    `there are, whose p99 may be ${mostTimes} times that without them, once all ${forgedInFlight} have been answered before.`,
    `Memory: ${memoryInFlight} in flight. Both ends, and the control plane, share the machine's cores.`,
    `peer-tuned: rollout-operator ${tunedFlags.join(" ")}; peer-shipped: with its defaults.`,
    ...(nodeFlags.length > 0 ? [`Sluice's node has more flags than in its image: ${nodeFlags.join(" ")}.`] : []),
  ].join("\n");
}
