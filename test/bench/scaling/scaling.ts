/** `npm run bench -- scaling`: zones are made smaller through a webhook that tells the pods, and followers are enlarged. */
import { type Benchmark, takeTurns } from "../benchmark.ts";
import { against, type ContenderName, tunedFlags } from "../contenders.ts";
import type { ScalingOptions, ScalingPart } from "../options.ts";
import { readyAfterMs, type Size } from "../sizes.ts";
import { seeded } from "../statistics.ts";
import type { TestBed, Trial } from "../trial.ts";
import { type Followed, followers, followInBrief, followTable, runFollow } from "./follow.ts";
import { type Lowered, lowerInBrief, lowerTable, retryAfterMs, runLower, steps } from "./lower.ts";

export type ScalingTrial =
  | ({ readonly part: "lower" } & Trial<Lowered>)
  | ({ readonly part: "follow" } & Trial<Followed>);

export function scalingBenchmark(options: ScalingOptions): Benchmark<ScalingTrial> {
  const random = seeded(options.seed);
  return {
    name: "scaling",
    method: method(options),
    settings: { tunedFlags, retryAfterMs, steps, followers },
    turns: options.parts.flatMap((part) =>
      takeTurns(
        { ...options, what: part, random },
        () => scalingContenders(options),
        (place, contender, size) => runPart(part, place, contender, size),
      ),
    ),
    inBrief: (trial) => (trial.part === "lower" ? lowerInBrief(trial) : followInBrief(trial)),
    tables: (trials) =>
      options.sizes.flatMap((size) => options.parts.map((part) => tableOf(part, size, trials, options))),
  };
}

/** The peer as shipped reconciles every 5 s, for which its followers wait: it takes part only by name. */
export function scalingContenders({
  contenders,
  against: other,
}: Pick<ScalingOptions, "contenders" | "against">): readonly ContenderName[] {
  const usual: readonly ContenderName[] = ["sluice", "peer-tuned"];
  return [...(contenders ?? usual), ...(other === undefined ? [] : [against])];
}

async function runPart(part: ScalingPart, place: TestBed, contender: ContenderName, size: Size): Promise<ScalingTrial> {
  if (part === "lower") return { part, ...(await runLower(place, contender, size)) };
  return { part, ...(await runFollow(place, contender, size)) };
}

function tableOf(part: ScalingPart, size: Size, trials: readonly ScalingTrial[], options: ScalingOptions): string {
  const contenders = scalingContenders(options);
  const own = trials.filter((trial) => trial.size === size.label);
  if (part === "lower") {
    const lowered = own.filter((trial) => trial.part === "lower");
    return lowerTable(size, contenders, lowered);
  }
  const followed = own.filter((trial) => trial.part === "follow");
  return followTable(size, contenders, followed);
}

function method({ seed, gogc, nodeFlags }: ScalingOptions): string {
  return [
    `Pods are Ready ${readyAfterMs / 1000} s after creation. The contenders take turns in random order (seed ${seed}) on one control plane, whose`,
    `processes run with GOGC=${gogc}; each trial has a namespace, a group and a contender's process of its own.`,
    `Lower: each pod is a real HTTP server. A client lowers the scale of one zone after the other by ${steps}, through the API server and the`,
    `registered webhooks, and asks again ${retryAfterMs} ms after a refusal. Time is until the last pod that leaves is gone. A trial fails where`,
    "a pod that left was not told, or one that stays was.",
    `Follow: the other zones follow the first one, which a client brings from 1 to ${followers} pods. Time is until they have that size.`,
    `peer-tuned: rollout-operator ${tunedFlags.join(" ")}, with its zone tracker; peer-shipped: with its defaults.`,
    ...(nodeFlags.length > 0 ? [`Sluice's node has more flags than in its image: ${nodeFlags.join(" ")}.`] : []),
  ].join("\n");
}
