/** `npm run mutate`: finds the changes to the code that no test and no seed of the simulation notices. */
import { mutate } from "./mutate.ts";
import { help, readOptions } from "./options.ts";
import { sluice } from "./project.ts";

async function main(): Promise<number> {
  const reading = readOptions(process.argv.slice(2));
  if (reading.kind === "help") {
    console.log(help);
    return 0;
  }
  if (reading.kind === "wrong") {
    for (const mistake of reading.mistakes) console.error(mistake);
    return 2;
  }
  return mutate(sluice, reading.options, (line) => console.log(line));
}

process.exitCode = await main();
