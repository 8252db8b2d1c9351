/** Tries one mutant after the other on the tests and seeds that feel it, the most likely and quickest first. */
import { posix } from "node:path";
import type { Mutant } from "./mutants.ts";
import type { Project, Sources } from "./project.ts";
import { describeStep, feeler, type Recorded, type Recording } from "./recording.ts";
import { type Ended, Thread } from "./thread.ts";
import type { Limits, Step } from "./worker.ts";

export interface Outcome {
  readonly by: string | undefined;
  readonly felt: boolean;
}

interface Candidate {
  readonly step: Recorded["step"];
  readonly name: string;
  readonly ms: number;
  readonly turns: number;
  readonly feels: (number: number) => boolean;
  tried: number;
  killed: number;
}

/** A run that takes this much longer than without the mutant counts as endless. The machine may be busy with other work. */
const limitsOf = ({ ms, turns }: Candidate): Limits => ({ limitMs: 4_000 + 10 * ms, mostTurns: 10_000 + 10 * turns });

const stepOf = (candidate: Candidate): Step => ({ ...candidate.step, ...limitsOf(candidate) });

const patiently = (step: Step): Step => ({ ...step, limitMs: step.limitMs * 3 });

/** The file of a test, or the seed itself. */
const placeOf = ({ step, name }: Candidate): string => (step.kind === "test" ? step.file : name);

/** The sources that import a source for its values. A source of constants only is felt in its importers. */
function importersOf(imported: string, { files }: Sources): string[] {
  const importing = files.filter(({ file, text }) =>
    [...text.matchAll(/^import (?!type )[^;]*? from "(\.[^"]+)";$/gm)].some(
      ([, path = ""]) => posix.join(posix.dirname(file), path) === imported,
    ),
  );
  return importing.map(({ file }) => file);
}

function isHang(ended: Ended): boolean {
  return ended.kind === "lost" || (ended.kind === "failed" && ended.killed.trial.isHang);
}

export class Trying {
  readonly #project: Project;
  readonly #sources: Sources;
  readonly #candidates: readonly Candidate[];
  readonly #mostMs: number;
  readonly #isEarly: (number: number) => boolean;
  readonly #lastKiller: (mutant: Mutant) => string | undefined;
  readonly #idle: Thread[] = [];

  constructor(
    project: Project,
    sources: Sources,
    recording: Recording,
    lastKiller: (mutant: Mutant) => string | undefined,
    /** Bound for all runs of one mutant together; 0: no bound. */
    mostSeconds: number,
  ) {
    this.#project = project;
    this.#mostMs = mostSeconds > 0 ? mostSeconds * 1_000 : Number.POSITIVE_INFINITY;
    this.#sources = sources;
    this.#isEarly = feeler(recording.early);
    this.#lastKiller = lastKiller;
    this.#candidates = recording.runs.map(({ step, ms, turns, felt }) => ({
      step,
      name: describeStep(step),
      ms,
      turns,
      feels: feeler(felt),
      tried: 0,
      killed: 0,
    }));
  }

  /** Resolves to what kills the mutant, and to whether anything could have killed a survivor. */
  async tryMutant(mutant: Mutant): Promise<Outcome> {
    const number = this.#sources.numberOf(mutant);
    const feeling = this.#inOrder(
      this.#candidates.filter(({ feels }) => feels(number)),
      this.#lastKiller(mutant),
    );
    const isEarly = this.#isEarly(number);
    const thread = this.#idle.pop() ?? this.#thread(0);
    let by: string | undefined;
    try {
      if (feeling.length > 0) by = await this.#tryOn(thread, number, feeling);
    } finally {
      this.#idle.push(thread);
    }
    if (by !== undefined) return { by, felt: true };
    return { by: isEarly ? await this.#tryEarly(mutant, number) : undefined, felt: isEarly || feeling.length > 0 };
  }

  async end(): Promise<void> {
    await Promise.all(this.#idle.splice(0).map((thread) => thread.end()));
  }

  /** The killer of an earlier run comes first, then the steps by their cost for each mutant that they have killed. */
  #inOrder(candidates: readonly Candidate[], first: string | undefined): Candidate[] {
    const costOf = ({ name, ms, tried, killed }: Candidate) =>
      name === first ? 0 : ((ms + 0.2) * (tried + 2)) / (killed + 1);
    let leftMs = this.#mostMs;
    return candidates
      .map((candidate) => ({ candidate, cost: costOf(candidate) }))
      .sort((one, other) => one.cost - other.cost)
      .map(({ candidate }) => candidate)
      .filter(({ ms }) => {
        leftMs -= ms;
        return leftMs > 0;
      });
  }

  async #tryOn(thread: Thread, number: number, candidates: readonly Candidate[]): Promise<string | undefined> {
    const steps = candidates.map(stepOf);
    let ended = await thread.follow({ on: number, steps });
    if (ended.kind === "failed" && !ended.killed.isClean) {
      // An earlier mutant may have left the thread in disorder, so the step is repeated in a new thread.
      const { step } = ended.killed;
      ended = await thread.follow({ on: number, steps: [step, ...steps] });
    }
    // A busy machine is slow as well: an endless run must also exceed three times the limit.
    if (isHang(ended)) ended = await thread.follow({ on: number, steps: steps.map(patiently) });
    return this.#note(ended, candidates);
  }

  #note(ended: Ended, candidates: readonly Candidate[]): string | undefined {
    if (ended.kind === "lost") return ended.why;
    const killer = ended.kind === "failed" ? describeStep(ended.killed.step) : undefined;
    for (const candidate of candidates) {
      candidate.tried++;
      if (candidate.name !== killer) continue;
      candidate.killed++;
      break;
    }
    return killer;
  }

  /** A mutant that matters while files are imported needs a thread of its own, in which it is active from the beginning. */
  async #tryEarly(mutant: Mutant, number: number): Promise<string | undefined> {
    const candidates = this.#knowing([mutant.file]) ?? this.#knowing(importersOf(mutant.file, this.#sources)) ?? [];
    const thread = this.#thread(number);
    const steps = this.#inOrder(candidates, undefined).map(stepOf);
    const ended = await thread.follow({ on: number, steps });
    await thread.end();
    if (ended.kind === "failed") return describeStep(ended.killed.step);
    return ended.kind === "lost" ? ended.why : undefined;
  }

  /**
   * Steps that may know one of the sources; undefined if no step feels any of them. A test that only reads a constant feels
   * nothing, but if another test of its file feels the source, it may know the source too.
   */
  #knowing(files: readonly string[]): readonly Candidate[] | undefined {
    const mutants = this.#sources.mutants.filter(({ file }) => files.includes(file));
    const numbers = mutants.map((mutant) => this.#sources.numberOf(mutant));
    const places = new Set(this.#candidates.filter(({ feels }) => numbers.some(feels)).map(placeOf));
    return places.size === 0 ? undefined : this.#candidates.filter((candidate) => places.has(placeOf(candidate)));
  }

  #thread(on: number): Thread {
    const { root, simulation } = this.#project;
    return new Thread({ root, build: "run", on, sources: this.#sources.files, simulation });
  }
}
