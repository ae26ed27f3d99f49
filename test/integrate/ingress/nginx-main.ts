/** Debian's nginx.conf around `conf.d`, but with folders that every user may write to. */
export const nginxMain = `
error_log stderr;
pid nginx.pid;
daemon off;
master_process off;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  include sallyport.conf;
}
`
