/** Reviews sent straight to the webhook: rate, latency and cost. */
import type { ContenderName } from "../contenders.ts";
import type { EvictionOptions } from "../options.ts";
import type { Size } from "../sizes.ts";
import { spreadOf } from "../statistics.ts";
import { compare, figuresOf, type Heading, type Row } from "../table.ts";
import { type Effort, measureEffort, runTrial, type TestBed, type Trial } from "../trial.ts";
import type { AnswerReport } from "./answers.ts";
import { Load } from "./load.ts";
import { countDurable, refusing, type Setting, withSetting } from "./setting.ts";

/** Reviews of one kind, with a given number in flight. */
export interface StepFigures extends AnswerReport, Effort {
  readonly kind: Kind;
  readonly inFlight: number;
  /** How many of the pods that were allowed to go a Lease holds afterwards. */
  readonly durable: number;
}

export interface ReviewFigures {
  readonly steps: readonly StepFigures[];
}

const kinds = ["dry run", "real"] as const;
type Kind = (typeof kinds)[number];

/** Time before each step in which connections and code warm up; it does not count. */
export const warmUpMs = 1_000;
const reference: ContenderName = "peer-tuned";

/** All dry runs come before all real reviews, because an allowance lasts for minutes and would affect them. */
export function runReviews(
  place: TestBed,
  name: ContenderName,
  size: Size,
  { inFlight, seconds }: Pick<EvictionOptions, "inFlight" | "seconds">,
): Promise<Trial<ReviewFigures>> {
  return runTrial(place, name, size, (scene) =>
    withSetting(
      scene,
      async (setting) => {
        const steps: StepFigures[] = [];
        for (const kind of kinds) {
          for (const count of inFlight) steps.push(await runStep(setting, kind, count, seconds * 1000));
        }
        return { steps };
      },
      refusing,
    ),
  );
}

async function runStep(setting: Setting, kind: Kind, inFlight: number, measuredMs: number): Promise<StepFigures> {
  const load = new Load(setting, inFlight);
  const runFor = (ms: number): Promise<AnswerReport> => {
    const endMs = performance.now() + ms;
    return load.run({ inFlight, isDryRun: () => kind === "dry run", enough: () => performance.now() >= endMs });
  };
  try {
    await runFor(warmUpMs);
    const measured = await measureEffort(setting.controlPlane, setting.running);
    const report = await runFor(measuredMs);
    const effort = await measured();
    const allowed = new Set(Object.values(report.allowedPods).flat());
    const uids = setting.pods.filter(({ name }) => allowed.has(name)).map(({ uid }) => uid);
    return { kind, inFlight, ...report, ...effort, durable: await countDurable(setting, uids) };
  } finally {
    await load.close();
  }
}

export function reviewsInBrief({ figures, failure, load }: Trial<ReviewFigures>): string {
  if (figures === undefined) return `failed: ${failure}`;
  const described = figures.steps.map(
    ({ kind, inFlight, perSecond }) => `${kind} ${inFlight}: ${perSecond.toFixed(0)}/s`,
  );
  return `${described.join(", ")} (load ${load.toFixed(1)})`;
}

/** The rows of one step, under a heading. */
function rowsOf(kind: Kind, inFlight: number, { budget }: Size): (Row<ReviewFigures> | Heading)[] {
  const row = (
    label: string,
    digits: number,
    value: (step: StepFigures) => number | undefined,
    atMost?: number,
  ): Row<ReviewFigures> => ({
    label: `  ${label}`,
    digits,
    value: (figures) => {
      const step = stepOf(figures, kind, inFlight);
      return step && value(step);
    },
    ...(atMost === undefined ? {} : { atMost }),
  });
  const sizes = ({ allowedPods }: StepFigures) => Object.values(allowedPods).map(({ length }) => length);
  return [
    { heading: `${kind}, ${inFlight} in flight` },
    row("reviews per second", 0, ({ perSecond }) => perSecond),
    row("p50, ms", 1, ({ p50Ms }) => p50Ms),
    row("p99, ms", 1, ({ p99Ms }) => p99Ms),
    row("allowed, of 100", 1, ({ allowed, answers }) => (100 * allowed) / answers),
    row("errors", 0, ({ errors }) => errors, 0),
    row("CPU for each, ms", 2, ({ cpuSeconds, answers }) => (1000 * cpuSeconds) / answers),
    row("CPU of the load for each, ms", 2, ({ harnessCpuSeconds, answers }) => (1000 * harnessCpuSeconds) / answers),
    row("API requests for each", 2, ({ requests, answers }) => requests / answers),
    ...(kind === "dry run"
      ? []
      : [
          row("pods of a zone allowed at once, worst", 0, (step) => Math.max(0, ...sizes(step)), budget),
          row("zones allowed at once, worst", 0, (step) => sizes(step).length, 1),
          row("allowed pods that a Lease holds", 0, ({ durable }) => durable),
        ]),
  ];
}

/** The table of one size, and a comparison of the contenders. */
export function reviewTable(
  size: Size,
  contenders: readonly ContenderName[],
  trials: readonly Trial<ReviewFigures>[],
  inFlight: readonly number[],
): string {
  const steps = kinds.flatMap((kind) => inFlight.map((count) => ({ kind, count })));
  return [
    `Reviews straight to the webhook: ${size.zones} zones of ${size.pods} pods, budget ${size.budget}`,
    ...compare(
      steps.flatMap(({ kind, count }) => rowsOf(kind, count, size)),
      contenders,
      trials,
    ),
    ...contenders
      .filter((name) => name !== reference)
      .flatMap((name) => steps.flatMap(({ kind, count }) => ratioLine(name, kind, count, trials))),
  ].join("\n");
}

/** Ratio of medians; nothing if one of the two has no figures. */
function ratioLine(
  name: ContenderName,
  kind: Kind,
  inFlight: number,
  trials: readonly Trial<ReviewFigures>[],
): string[] {
  const medianOf = (who: ContenderName, value: (step: StepFigures) => number | undefined): number => {
    const values = figuresOf(who, trials).flatMap((figures) => {
      const step = stepOf(figures, kind, inFlight);
      return step === undefined ? [] : (value(step) ?? []);
    });
    return values.length === 0 ? Number.NaN : spreadOf(values).median;
  };
  const ratio = (value: (step: StepFigures) => number | undefined) =>
    medianOf(name, value) / medianOf(reference, value);
  const [rate, p99] = [ratio(({ perSecond }) => perSecond), ratio(({ p99Ms }) => p99Ms)];
  if (!Number.isFinite(rate) || !Number.isFinite(p99)) return [];
  return [
    `  ${kind}, ${inFlight} in flight: ${name} answers ${rate.toFixed(1)} times as many as ${reference}, its p99 is ${p99.toFixed(2)} of that`,
  ];
}

function stepOf({ steps }: ReviewFigures, kind: Kind, inFlight: number): StepFigures | undefined {
  return steps.find((step) => step.kind === kind && step.inFlight === inFlight);
}
