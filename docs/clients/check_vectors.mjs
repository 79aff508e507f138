// Compare client.mjs with the test vectors: node docs/clients/check_vectors.mjs
import { readFileSync } from "node:fs";
import * as client from "./client.mjs";

const vectors = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url)));
let wrong = 0;
for (const vector of vectors) {
  const left = [...(vector.draws ?? [])];
  const draw = (limit) => {
    const [asked, integer] = left.shift() ?? [];
    if (asked !== String(limit)) throw new Error(`asked for [0, ${limit}) instead of [0, ${asked})`);
    return BigInt(integer);
  };
  let report;
  try {
    report = client[vector.function](...vector.arguments, draw);
    if (left.length > 0) throw new Error(`${left.length} integers were not used`);
  } catch (error) {
    report = String(error);
  }
  const text = typeof report === "bigint" ? JSON.stringify(String(report)) : JSON.stringify(report);
  if (text !== JSON.stringify(vector.report)) {
    wrong += 1;
    console.log(`${JSON.stringify(vector)}: ${text}`);
  }
}
console.log(`${vectors.length - wrong} of ${vectors.length} vectors`);
process.exitCode = wrong > 0 ? 1 : 0;
