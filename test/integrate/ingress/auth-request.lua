-- Asks as the Lua script haproxy-auth-request does: by HEAD, with all headers of the client but Host and Content-Length,
-- repeated headers joined in one line, and the address of the asked server as Host.
local function ask(address, path, headers)
  local lines = { "HEAD " .. path .. " HTTP/1.1", "host: " .. address, "connection: close" }
  for name, values in pairs(headers) do
    if name ~= "host" and name ~= "content-length" and name ~= "connection" then
      local joined
      for _, value in pairs(values) do
        joined = joined and (joined .. ", " .. value) or value
      end
      table.insert(lines, name .. ": " .. joined)
    end
  end
  local socket = core.tcp()
  socket:settimeout(5)
  local host, port = address:match("^(.*):(%d+)$")
  if not socket:connect(host, port) then return nil end
  socket:send(table.concat(lines, "\r\n") .. "\r\n\r\n")
  local status = (socket:receive("*l") or ""):match("^HTTP/1%.[01] (%d%d%d)")
  local answer = {}
  while true do
    local line = socket:receive("*l")
    if not line or line == "" then break end
    local name, value = line:match("^([^:]+):%s*(.-)%s*$")
    if name then answer[name:lower()] = value end
  end
  socket:close()
  return tonumber(status), answer
end

local function authorize(txn, backend, path, copies)
  local address
  for _, server in pairs(core.backends[backend].servers) do
    address = server:get_addr()
  end
  local status, answer = ask(address, path, txn.http:req_get_headers())
  txn:set_var("txn.auth_response_successful", status ~= nil and status >= 200 and status < 300)
  for name, value in pairs(answer or {}) do
    txn:set_var("req.auth_response_header." .. name:gsub("[^a-zA-Z0-9]", "_"), value)
    if copies(name) then txn.http:req_set_header(name, value) end
  end
end

core.register_action("auth-request", { "http-req" }, function(txn, backend, path)
  authorize(txn, backend, path, function() return false end)
end, 2)

-- As the script's auth-intercept with `*` for headers of a permit, which it asks for by HEAD here. The script itself
-- leaves out Content-Length, others may not.
core.register_action("auth-intercept", { "http-req" }, function(txn, backend, path)
  authorize(txn, backend, path, function(name) return name ~= "host" end)
end, 2)
