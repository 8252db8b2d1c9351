/** The program that kubectl runs for completions of the plugin. */
import { chmod, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** kubectl looks for a program of this name on PATH. */
export const completionName = "kubectl_complete-sluice";

/** Writes it beside the plugin. */
export async function writeCompletion(plugin: string): Promise<void> {
  const file = join(dirname(plugin), completionName);
  await writeFile(file, '#!/bin/sh\nexec kubectl-sluice __complete "$@"\n');
  await chmod(file, 0o755);
}
