/** One run of `kubectl port-forward`. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { escapeControls } from "../../functions/shared/base/escape-control.ts";

export interface PortForward {
  /** Resolves to the port of this machine as soon as it forwards; undefined if it has ended before. */
  readonly forwarding: Promise<number | undefined>;
  /** Resolves when it has ended, to the last line of its standard error. */
  readonly ended: Promise<string>;
  /** Ends it. */
  end(): void;
}

/**
 * Runs the `kubectl` that is on PATH. It never rejects: a program that cannot be started has ended.
 * @param path the folders of programs
 */
export function startPortForward(args: readonly string[], path = process.env.PATH): PortForward {
  const forwarding = Promise.withResolvers<number | undefined>();
  const ended = Promise.withResolvers<string>();
  const program = spawn("kubectl", args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, PATH: path } });
  let last = "";
  createInterface({ input: program.stdout }).on("line", (line) => {
    const [, port] = /^Forwarding from \S+:(\d+) -> /.exec(line) ?? [];
    if (port !== undefined) forwarding.resolve(Number(port));
  });
  createInterface({ input: program.stderr }).on("line", (line) => {
    last = line;
  });
  const end = (why: string) => {
    forwarding.resolve(undefined);
    ended.resolve(escapeControls(why));
  };
  program.on("error", ({ message }) => end(`kubectl cannot be started: ${message}`));
  program.on("close", (code) => end(last || `kubectl port-forward has ended with code ${code}`));
  return { forwarding: forwarding.promise, ended: ended.promise, end: () => void program.kill() };
}
