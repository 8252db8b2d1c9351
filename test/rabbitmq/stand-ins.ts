/** Programs in place of RabbitMQ's tools, which answer as a test says, at once or from another moment on. */
import { chmod, mkdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PodFiles } from "./gate.ts";

/** The answer of a command: a code, or the text of a shell script. */
export type Answer = number | string;

const TOOLS = ["rabbitmq-diagnostics", "rabbitmq-queues", "rabbitmq-upgrade", "rabbitmqctl"];

/** The first argument that is no option is the command, as for the tools themselves. A command without an answer is unknown. */
const TOOL = `#!/bin/sh
for command; do case $command in -*) ;; *) break ;; esac; done
echo "$(basename "$0") $*" >>"$STAND_INS/calls"
[ -e "$STAND_INS/answers/$command" ] || { echo "Command '$command' not found."; exit 64; }
. "$STAND_INS/answers/$command"
`;

export const COMMANDS = {
  ping: "ping",
  running: "check_running",
  quorum: "check_if_node_is_quorum_critical",
  mirrors: "check_if_node_is_mirror_sync_critical",
  version: "version",
  drain: "drain",
} as const;

export type Answers = Partial<Record<keyof typeof COMMANDS, Answer>>;

export class StandIns {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Puts them into a pod's folder, with good answers: a node of 3.x that no queue needs. */
  static async make(pod: PodFiles, answers: Answers = {}): Promise<StandIns> {
    const standIns = new StandIns(join(pod.folder, "stand-ins"));
    await mkdir(join(standIns.#folder, "answers"), { recursive: true });
    await mkdir(join(standIns.#folder, "bin"));
    for (const tool of TOOLS) await standIns.add(tool, TOOL);
    const well: Answers = { ping: 0, running: 0, quorum: 0, mirrors: 0, version: "echo 3.13.7", drain: 0 };
    await standIns.answer({ ...well, ...answers });
    return standIns;
  }

  /** Adds a program to PATH. */
  async add(name: string, script: string): Promise<void> {
    const path = join(this.#folder, "bin", name);
    await writeFile(path, script);
    await chmod(path, 0o755);
  }

  /** Adds a program to PATH that is kept elsewhere. */
  link(name: string, to: string): Promise<void> {
    return symlink(to, join(this.#folder, "bin", name));
  }

  /** Sets answers from now on. Each file is replaced as a whole. */
  async answer(answers: Answers): Promise<void> {
    for (const [name, answer] of Object.entries(answers)) {
      const path = join(this.#folder, "answers", COMMANDS[name as keyof typeof COMMANDS]);
      await writeFile(`${path}.part`, typeof answer === "number" ? `exit ${answer}\n` : `${answer}\n`);
      await rename(`${path}.part`, path);
    }
  }

  /** The environment of a gate that finds them. `system`: the folders of an image's other programs. */
  environment(system: string): Record<string, string> {
    return { PATH: `${join(this.#folder, "bin")}:${system}`, STAND_INS: this.#folder };
  }

  /** Each call as `tool argument …`. */
  async calls(): Promise<string[]> {
    const text = await readFile(join(this.#folder, "calls"), "utf8").catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  }
}
