/**
 * Runs everything once without a mutant, and records which mutants each test and each seed would feel: whether the change
 * would make a difference there.
 */
import type { Project, Sources } from "./project.ts";
import { Thread } from "./thread.ts";
import type { Step, WorkerMessage } from "./worker.ts";

export interface Recorded {
  readonly step: Exclude<Step, { readonly kind: "file" }>;
  readonly ms: number;
  /** How often a loop's body was entered. */
  readonly turns: number;
  /** One bit for each mutant, in base 64. */
  readonly felt: string;
}

export interface Recording {
  /** Mutants that are reached while files are imported, so that they must be active before that. */
  readonly early: string;
  readonly runs: readonly Recorded[];
  /** Steps that fail without any mutant, and so can kill none. */
  readonly broken: readonly string[];
}

/** Runs test files, or seeds, on this many threads. */
export async function record(
  project: Project,
  sources: Sources,
  steps: readonly Step[],
  workers: number,
): Promise<Recording> {
  const queue = [...steps];
  const early = new Set<number>();
  const runs: Recorded[] = [];
  const broken: string[] = [];
  const onMessage = (message: WorkerMessage) => {
    if (message.kind === "imported") for (const number of message.felt) early.add(number);
    if (message.kind !== "ran" || message.step.kind === "file") return;
    if (message.trial.failure !== undefined) broken.push(`${describeStep(message.step)}: ${message.trial.failure}`);
    else
      runs.push({
        step: message.step,
        ms: message.trial.ms,
        turns: message.turns,
        felt: pack(message.felt, sources.count),
      });
  };
  const work = async () => {
    const { root, simulation } = project;
    const thread = new Thread({ root, build: "record", on: 0, sources: sources.files, simulation }, onMessage);
    try {
      for (let step = queue.shift(); step !== undefined; step = queue.shift()) {
        const ended = await thread.follow({ on: 0, steps: [step] });
        if (ended.kind === "lost") broken.push(`${describeStep(step)}: ${ended.why}`);
      }
    } finally {
      queue.length = 0;
      await thread.end();
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return { early: pack([...early], sources.count), runs, broken };
}

/** Names a step for a reader: a test by its file and name, a seed by the rule that its scenario is aimed at. */
export function describeStep(step: Step): string {
  if (step.kind === "file") return step.file;
  if (step.kind === "test") return `${step.file}: ${step.name}`;
  return step.rule === "" ? `seed ${step.seed}` : `seed ${step.seed} of the scenario for ${step.rule}`;
}

function pack(numbers: readonly number[], count: number): string {
  const bits = new Uint8Array(Math.ceil((count + 1) / 8));
  for (const number of numbers) bits[number >> 3] = (bits[number >> 3] as number) | (1 << (number & 7));
  return Buffer.from(bits).toString("base64");
}

/** A function that says whether a recorded run feels a mutant. */
export function feeler(packed: string): (number: number) => boolean {
  const bits = Buffer.from(packed, "base64");
  return (number) => ((bits[number >> 3] ?? 0) & (1 << (number & 7))) !== 0;
}
