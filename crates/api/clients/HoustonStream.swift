// Reads an event stream of Houston to the end of its run, on iOS and macOS. No test compiles it.
// Coming back to the foreground, cancel the task and start it again with the last id.

import Foundation

struct Refused: Error { let status: Int }

/// Calls `onEvent` with the id and the fields of each event until the run ends. `token` is asked before each connection.
func readEvents(_ url: URL, after: String? = nil, token: () async throws -> String,
                onEvent: (String, [String: Any]) -> Void) async throws {
    var (last, failures, isOver) = (after, 0, false)
    while !isOver {
        var request = URLRequest(url: url, timeoutInterval: 25)
        request.setValue("Bearer \(try await token())", forHTTPHeaderField: "Authorization")
        request.setValue(last, forHTTPHeaderField: "Last-Event-ID")
        do {
            let (bytes, response) = try await URLSession.shared.bytes(for: request)
            let status = (response as? HTTPURLResponse)?.statusCode ?? 0
            if status == 204 { return }
            if (400..<500).contains(status), status != 401, status != 429 { throw Refused(status: status) }
            guard status == 200 else { throw URLError(.badServerResponse) }
            failures = 0
            var id = ""
            // `lines` leaves out empty lines. Of an event, the id comes first; a `data` that has broken off is no JSON.
            for try await line in bytes.lines {
                if line.hasPrefix("id:") { id = line.dropFirst(3).trimmingCharacters(in: .whitespaces) }
                guard line.hasPrefix("data:") else { continue }
                let event = try JSONSerialization.jsonObject(with: Data(line.dropFirst(5).utf8)) as? [String: Any] ?? [:]
                last = id
                isOver = ["RUN_FINISHED", "RUN_ERROR"].contains(event["type"] as? String)
                onEvent(id, event)
            }
        } catch let refused as Refused {
            throw refused
        } catch {
            try Task.checkCancellation()
        }
        if !isOver { try await Task.sleep(nanoseconds: 1_000_000 * UInt64(min(30_000, 500 << min(failures, 6)))) }
        failures += 1
    }
}
